// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/text/glob.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// The name of the weight to which an optimizer state belongs ("w" for "adam_m.w"), or an empty
/// text.
/// @param prefixes prefixes of states, in addition to MindSpore's.
std::string weight_of(const std::string& state, const std::vector<std::string>& prefixes = {});

/// Maps names in the source to names in the destination; other names stay.
class NameMap {
 public:
  NameMap() = default;
  explicit NameMap(std::map<std::string, std::string> names) : names_(std::move(names)) {}
  /// Reads a JSON object: {"old.name": "new.name"}.
  /// @throws Error kBadInput with the file and what is wrong, kMissing, kIo.
  static NameMap load(const std::filesystem::path& path, const SourceTreePtr& tree = nullptr);

  /// The name in the destination; refers to the argument or to the map.
  const std::string& target(const std::string& source) const;
  /// By the name in the source.
  const std::map<std::string, std::string>& entries() const noexcept { return names_; }

 private:
  std::map<std::string, std::string> names_;
};

/// Whether a parameter is shown: the filter accepts its name in the destination and, with
/// weights_only, neither of its names is that of a training state.
bool takes(const NameFilter& filter, const NameMap& names, const std::string& source);

}  // namespace reshardfs
