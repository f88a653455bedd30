// SPDX-License-Identifier: Apache-2.0
/// The YAML file of a training job, as far as maps ask for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/known.h"

namespace reshardfs::modelmap {

inline constexpr std::size_t kMaxTrainingConfigBytes = std::size_t{1} << 20U;

/// Of all mappings of all documents, whatever their depth: frameworks nest their settings in
/// different ways. Only the wanted keys are kept, and aliases are not followed: where an alias
/// stands, the anchor has the key already.
class TrainingConfig {
 public:
  TrainingConfig() = default;
  /// @param text of the file.
  /// @param keys wanted.
  /// @throws Error kBadInput with file and line if it is no YAML, is nested more than 64 deep, or
  /// is
  ///         larger than kMaxTrainingConfigBytes.
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
