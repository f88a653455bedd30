// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/text/glob.h"

namespace reshardfs {

/// The weight that an optimizer state belongs to by its name ("w" of "adam_m.w"), or nothing.
/// @param prefixes what may stand before the weight's name, beside MindSpore's own prefixes.
std::string weight_of(const std::string& state, const std::vector<std::string>& prefixes = {});

/// Names in the source to names in the destination; names that are not in it stay.
class NameMap {
 public:
  NameMap() = default;
  /// Reads a JSON object of texts: {"old.name": "new.name"}.
  /// @throws Error kBadInput with the file and what is wrong, kMissing, kIo.
  static NameMap load(const std::filesystem::path& path);

  /// The name in the destination; refers to the argument or to the map.
  const std::string& target(const std::string& source) const;
  /// By the name in the source.
  const std::map<std::string, std::string>& entries() const noexcept { return names_; }

 private:
  std::map<std::string, std::string> names_;
};

/// Whether a parameter is shown: by its name in the destination, and only if the filter leaves it
/// out as a state under neither of its names.
bool takes(const NameFilter& filter, const NameMap& names, const std::string& source);

}  // namespace reshardfs
