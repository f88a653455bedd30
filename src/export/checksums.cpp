// SPDX-License-Identifier: Apache-2.0
#include "export/checksums.h"

namespace reshardfs {

std::string checksum_line(const std::string& sha256, const std::string& path) {
  std::string name;
  for (const char c : path) {
    switch (c) {
      case '\\':
        name += "\\\\";
        break;
      case '\n':
        name += "\\n";
        break;
      case '\r':
        name += "\\r";
        break;
      default:
        name += c;
    }
  }
  // A backslash in front says that the name has escapes.
  return (name == path ? "" : "\\") + sha256 + "  " + name + "\n";
}

}  // namespace reshardfs
