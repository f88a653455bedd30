// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "report/map_sources.h"

namespace reshardfs {
namespace {

/// As WCAG 2 has it, computed anew.
double luminance(const std::string& fill) {
  constexpr std::array<double, 3> kShares{0.2126, 0.7152, 0.0722};
  double sum = 0;
  for (std::size_t i = 0; i < kShares.size(); ++i) {
    const double value = std::stoi(fill.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    sum +=
        kShares.at(i) * (value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4));
  }
  return sum;
}

TEST(SourceColour, DiffersForEachSource) {
  for (const std::size_t count : {1U, 2U, 9U, 10U, 64U, 128U}) {
    std::set<std::string> fills;
    for (std::size_t i = 0; i < count; ++i) fills.insert(source_colour(i, count).fill);
    EXPECT_EQ(fills.size(), count);
  }
}

TEST(SourceColour, RisesInBrightnessOnTheRamp) {
  for (const std::size_t count : {10U, 11U, 64U, 100U}) {
    double before = -1;
    for (std::size_t i = 0; i < count; ++i) {
      const double now = luminance(source_colour(i, count).fill);
      EXPECT_GT(now, before) << "color " << i << " of " << count;
      before = now;
    }
  }
}

TEST(SourceColour, LetsTextsBeRead) {
  for (const std::size_t count : {9U, 64U}) {
    for (std::size_t i = 0; i < count; ++i) {
      const SourceColour colour = source_colour(i, count);
      const double on = luminance(colour.fill);
      const double ink = luminance(colour.takes_white ? "#ffffff" : "#10151d");
      const double contrast = (std::max(on, ink) + 0.05) / (std::min(on, ink) + 0.05);
      EXPECT_GE(contrast, 3.9) << colour.fill;
    }
  }
}

}  // namespace
}  // namespace reshardfs
