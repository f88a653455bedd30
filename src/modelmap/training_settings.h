// SPDX-License-Identifier: Apache-2.0
/// Settings of a training that decide where elements lie and that no shape shows: what a map knows
/// of them, and where their values are stated.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/known.h"
#include "modelmap/expression.h"

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
  /// Values in words, as --map-var states them: "layers=numbered".
  std::map<std::string, std::int64_t> words{};
  std::string framework{};  ///< whose releases these are
  /// The framework's own default from each release on, in ascending order.
  std::vector<std::pair<Release, std::int64_t>> releases{};
  /// Sides whose names and ranks of tensors show it: of a source of such a side, nothing else
  /// counts that is stated.
  bool is_shown_by_from = false;
  bool is_shown_by_to = false;
  /// What it is where a variable is stated to be other than 0, or by the empty name always:
  /// whatever its own keys say.
  std::map<std::string, std::int64_t> fixed{};
  /// Its value where it is not stated; nullptr: none.
  std::shared_ptr<const Expression> otherwise{};

  bool is_shown_by(bool from) const noexcept { return from ? is_shown_by_from : is_shown_by_to; }
  /// The default of a release; nothing before the first that the map knows.
  std::optional<std::int64_t> default_of(const Release& release) const;
  /// The default of a release and of all later ones; nothing if it changed.
  std::optional<std::int64_t> default_since(const Release& release) const;
};

/// [releases] of a map: what stands in a training's configuration only from a release on.
struct ReleaseProof {
  std::string key{};
  std::optional<std::int64_t> value{};  ///< nothing: any
  Release since{};
};

/// By the name of the variable.
using SettingTable = std::map<std::string, Setting>;

inline constexpr std::size_t kMaxTrainingConfigBytes = std::size_t{1} << 20U;

/// The YAML file of a training job, as far as maps ask for it.
/// Of all mappings of all documents, whatever their depth: frameworks nest their settings in
/// different ways. A key with dots, `context.mode`, stands under these keys from the top of a
/// document alone. Only the wanted keys are kept, and aliases are not followed: where an alias
/// stands, the anchor has the key already.
class TrainingConfig {
 public:
  TrainingConfig() = default;
  /// @param text of the file.
  /// @param keys wanted.
  /// @throws Error kBadInput with file and line if it is no YAML, is nested more than 64 deep, or
  ///         is larger than kMaxTrainingConfigBytes.
  static TrainingConfig parse(const std::string& text, const std::string& file,
                              const std::set<std::string>& keys);

  /// Adds those of another file.
  void add(const TrainingConfig& other);

  bool empty() const noexcept { return entries_.empty(); }
  /// The files, for messages.
  const std::vector<std::string>& files() const noexcept { return files_; }
  /// An integer, or 0 or 1 for a truth value as YAML 1.1 writes it. Unknown if the key does not
  /// stand there, or stands there twice with different values, or with one of another kind; the
  /// origin is then empty only if the key is not there.
  Known<std::int64_t> find(const std::string& key) const;

 private:
  friend class TrainingReader;

  struct Entry {
    std::string file{};
    std::int64_t line = 0;
    std::string value{};
    bool is_quoted = false;  ///< a text, whatever it looks like
  };

  std::map<std::string, std::vector<Entry>> entries_{};
  std::vector<std::string> files_{};
};

}  // namespace reshardfs::modelmap
