// SPDX-License-Identifier: Apache-2.0
/// Settings of a training that decide where elements lie and that no shape shows: what a map knows
/// of them, and where their values are stated.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reshardfs::modelmap {

/// A release of a framework: 1.6 is 1.6.0.
struct Release {
  std::vector<std::int64_t> parts{};  ///< without zeros at the end

  /// Nothing unless the text has one to four numbers with dots between them.
  static std::optional<Release> parse(const std::string& text);
  std::string text() const;
  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const Release&) const = default;
};

/// [settings.NAME] of a map.
struct Setting {
  /// Keys of the training's configuration; the first is that of the newest release.
  std::vector<std::string> keys{};
  /// What its values mean, for messages.
  std::map<std::int64_t, std::string> readings{};
  std::string framework{};  ///< whose releases these are
  /// The framework's own default from each release on, in ascending order.
  std::vector<std::pair<Release, std::int64_t>> releases{};

  /// The default of a release; nothing before the first that the map knows.
  std::optional<std::int64_t> default_of(const Release& release) const;
};

/// By the name of the variable.
using SettingTable = std::map<std::string, Setting>;

}  // namespace reshardfs::modelmap
