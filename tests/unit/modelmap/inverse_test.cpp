// SPDX-License-Identifier: Apache-2.0
/// Sources that several targets share: cut at random, and put together again.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "modelmap/disjoint_boxes.h"
#include "modelmap/form_inverse.h"
#include "modelmap/form_operations.h"
#include "reference.h"

namespace reshardfs::modelmap::testing {
namespace {

class Cutter {
 public:
  explicit Cutter(std::uint32_t seed) : random_(seed) {}

  std::int64_t number(std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random_);
  }

  /// Parts of a source that have each element once.
  std::vector<NormalForm> parts(const Shape& shape) {
    std::vector<NormalForm> parts = {NormalForm::of_source(shape, 0)};
    for (std::int64_t i = number(0, 5); i > 0; --i) {
      const auto which =
          static_cast<std::size_t>(number(0, static_cast<std::int64_t>(parts.size()) - 1));
      NormalForm form = std::move(parts[which]);
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(which));
      cut(turned(std::move(form)), parts);
    }
    return parts;
  }

 private:
  NormalForm turned(NormalForm form) {
    if (number(0, 1) == 0) {
      std::vector<std::int64_t> order(form.shape.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
      std::shuffle(order.begin(), order.end(), random_);
      form = permute(std::move(form), order);
    }
    const std::int64_t elements = form.elements();
    std::int64_t rows = number(1, 8);
    while (elements % rows != 0) --rows;
    return number(0, 1) == 0 ? std::move(form) : reshape(std::move(form), {rows, elements / rows});
  }

  void cut(NormalForm form, std::vector<NormalForm>& parts) {
    const std::int64_t d = number(0, static_cast<std::int64_t>(form.shape.size()) - 1);
    const std::int64_t length = form.shape[static_cast<std::size_t>(d)];
    if (length == 1) return parts.push_back(std::move(form));
    if (number(0, 2) == 0) {
      const std::int64_t step = number(2, std::min<std::int64_t>(3, length));
      for (std::int64_t i = 0; i < step; ++i) parts.push_back(slice(form, d, {i, length, step}));
      return;
    }
    const std::int64_t middle = number(1, length - 1);
    parts.push_back(slice(form, d, {0, middle, 1}));
    parts.push_back(slice(std::move(form), d, {middle, length, 1}));
  }

  std::mt19937 random_;
};

/// The parts, and which of them are read.
struct Shared {
  std::vector<std::unique_ptr<IndexedForm>> forms{};
  std::vector<Reading> readings{};
};

Shared shared(std::vector<NormalForm> parts) {
  Shared out;
  for (NormalForm& part : parts) {
    out.forms.push_back(std::make_unique<IndexedForm>(std::move(part)));
    out.readings.push_back({out.forms.back().get(), 0, false});
  }
  return out;
}

TEST(Inverse, PutsRandomPartsTogetherAgain) {
  const std::uint32_t first_seed = std::random_device()();
  for (std::uint32_t i = 0; i < 5'000 && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(first_seed + i));
    Cutter cutter(first_seed + i);
    const Shape shape = {cutter.number(1, 9), cutter.number(1, 9), cutter.number(1, 6)};
    Shared parts = shared(cutter.parts(shape));
    std::vector<Place> expected(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t part = 0; part < parts.forms.size(); ++part) {
      const std::vector<Place> places = places_of(parts.forms[part]->form());
      for (std::size_t k = 0; k < places.size(); ++k) {
        expected[static_cast<std::size_t>(places[k].second)] = {static_cast<std::int64_t>(part),
                                                                static_cast<std::int64_t>(k)};
      }
    }
    const Inverse whole = invert(shape, parts.readings);
    EXPECT_FALSE(whole.overlap);
    EXPECT_EQ(whole.undefined, 0);
    EXPECT_EQ(places_of(whole.form), expected);
    const Inverse coverage = invert(shape, parts.readings, InverseParts::kCoverage);
    EXPECT_FALSE(coverage.overlap);
    EXPECT_EQ(coverage.undefined, 0);
    const Reading last = parts.readings.back();
    parts.readings.push_back(last);
    EXPECT_TRUE(invert(shape, parts.readings).overlap);
    parts.readings.resize(parts.readings.size() - 2);
    EXPECT_EQ(invert(shape, parts.readings).undefined, last.form->form().elements());
  }
}

TEST(Inverse, CoversAnOddNumberOfRowsByEverySecondOne) {
  const NormalForm rows = NormalForm::of_source({151'643, 896}, 0);
  const Shared parts = shared({slice(rows, 0, {0, 151'643, 2}), slice(rows, 0, {1, 151'643, 2})});
  const Inverse coverage = invert(rows.shape, parts.readings, InverseParts::kCoverage);
  EXPECT_FALSE(coverage.overlap);
  EXPECT_EQ(coverage.undefined, 0);
  EXPECT_EQ(invert(rows.shape, {parts.readings.data(), 1}, InverseParts::kCoverage).undefined,
            75'821 * 896);
}

TEST(Inverse, FindsOverlapsAmongManyBoxesQuickly) {
  NormalForm form{{300, 200, 6}, {{300}, {200}, {6}}, {}};
  for (std::int64_t i = 0; i < 60'000; ++i) {
    form.boxes.push_back({0, 0, {{i % 300, i % 300 + 1, 0}, {i / 300, i / 300 + 1, 0}, {0, 5, 1}}});
  }
  const auto never = [](std::int64_t) { return false; };
  EXPECT_FALSE(make_disjoint(form, never));
  form.boxes.push_back({1, 0, {{7, 9, 1}, {20, 21, 0}, {4, 6, 1}}});
  const auto found = make_disjoint(form, never);
  ASSERT_TRUE(found);
  EXPECT_EQ(std::max(found->first, found->second), 1);
}

TEST(Inverse, OfManySourcesIsThatOfEach) {
  std::vector<NormalForm> experts;
  for (std::int64_t i = 0; i < 256; ++i) {
    experts.push_back(NormalForm::of_source({2048, 7168}, i));
  }
  const IndexedForm joined(reshape(permute(stack(std::move(experts), 0), {0, 2, 1}), {-1, 2048}));
  for (const std::int64_t expert : {0, 17, 255}) {
    const Reading reading{&joined, expert, false};
    const Inverse inverse = invert({2048, 7168}, {&reading, 1});
    EXPECT_EQ(inverse.undefined, 0);
    ASSERT_EQ(inverse.form.boxes.size(), 1U);
    EXPECT_EQ(inverse.form.boxes[0].base, expert * 2048 * 7168);
    EXPECT_EQ(inverse.form.boxes[0].axes[0].stride, 1);
    EXPECT_EQ(inverse.form.boxes[0].axes[1].stride, 2048);
  }
}

}  // namespace
}  // namespace reshardfs::modelmap::testing
