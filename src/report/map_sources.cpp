// SPDX-License-Identifier: Apache-2.0
#include "report/map_sources.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

using Rgb = std::array<double, 3>;  // 0 to 255

/// Paul Tol's "light" scheme: fills that colour-blind people tell apart, and black text is read on.
constexpr std::array<std::uint32_t, kHues> kLight{0x77aadd, 0xee8866, 0xbbcc33, 0xffaabb, 0x44bb99,
                                                  0xeedd88, 0x99ddff, 0xaaaa00, 0xdddddd};

/// Viridis: equal steps look equally far apart, to the colour-blind and in grey, too.
constexpr std::array<std::uint32_t, 9> kRamp{0x440154, 0x472d7b, 0x3b528b, 0x2c728e, 0x21918c,
                                             0x28ae80, 0x5ec962, 0xaddc30, 0xfde725};
/// Where the ramp begins: what is darker sinks into a dark page.
constexpr double kRampBegin = 0.12;

Rgb rgb(std::uint32_t colour) {
  return {static_cast<double>(colour >> 16U), static_cast<double>(colour >> 8U & 0xffU),
          static_cast<double>(colour & 0xffU)};
}

Rgb on_ramp(double part) {
  const double at = (kRampBegin + (1 - kRampBegin) * part) * (kRamp.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(at), kRamp.size() - 2);
  const double share = at - static_cast<double>(below);
  const Rgb from = rgb(kRamp.at(below));
  const Rgb to = rgb(kRamp.at(below + 1));
  Rgb out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out.at(i) = std::round(from.at(i) + share * (to.at(i) - from.at(i)));
  }
  return out;
}

/// As WCAG 2 defines it: 0 is black, 1 is white.
double luminance(const Rgb& colour) {
  const auto linear = [](double value) {
    const double v = value / 255;
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(colour[0]) + 0.7152 * linear(colour[1]) + 0.0722 * linear(colour[2]);
}

}  // namespace

SourceColour source_colour(std::size_t number, std::size_t count) {
  const Rgb colour = count <= kHues
                         ? rgb(kLight.at(number))
                         : on_ramp(static_cast<double>(number) / static_cast<double>(count - 1));
  // Where black and white have the same contrast.
  constexpr double kMiddle = 0.179;
  return {fmt::format("#{:02x}{:02x}{:02x}", static_cast<int>(colour[0]),
                      static_cast<int>(colour[1]), static_cast<int>(colour[2])),
          luminance(colour) < kMiddle};
}

MapSources::MapSources(const SliceMap& map) : by_tensor_(map.made_by_map) {
  for (const Stretch& row : map.rows) {
    for (const Stretch& column : map.columns) {
      const Holding& holding = map.holdings.at({row.source_part, column.source_part});
      if (holding) keys_.push_back(key(holding));
    }
  }
  std::sort(keys_.begin(), keys_.end());
  keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
}

MapSources::Key MapSources::key(const Holding& holding) const {
  return by_tensor_ ? Key{Rank(), holding.entry->name} : Key{holding.file->rank, {}};
}

std::size_t MapSources::number(const Holding& holding) const {
  return static_cast<std::size_t>(std::lower_bound(keys_.begin(), keys_.end(), key(holding)) -
                                  keys_.begin());
}

std::string MapSources::label(std::size_t number) const {
  return by_tensor_ ? printable(keys_[number].second) : to_string(keys_[number].first);
}

std::string MapSources::short_label(std::size_t number) const {
  return by_tensor_ ? fmt::format("#{}", number + 1) : to_string(keys_[number].first);
}

}  // namespace reshardfs
