// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace reshardfs {

/// Names in the source to names in the destination; names that are not in it stay.
class NameMap {
 public:
  NameMap() = default;
  /// Reads a JSON object of texts: {"old.name": "new.name"}.
  /// @throws Error kBadInput with the file and what is wrong, kMissing, kIo.
  static NameMap load(const std::filesystem::path& path);

  /// The name in the destination; refers to the argument or to the map.
  const std::string& target(const std::string& source) const;

 private:
  std::map<std::string, std::string> names_;
};

}  // namespace reshardfs
