// SPDX-License-Identifier: Apache-2.0
#include "export/checksums.h"

#include <algorithm>
#include <set>
#include <span>

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

bool has_only_lines_of(const std::string& text, const Manifest::Entries& entries) {
  std::set<std::string> lines;
  for (const auto& [path, entry] : entries) lines.insert(checksum_line(entry.sha256, path));
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    if (!lines.contains(text.substr(begin, end - begin))) return false;
    begin = end;
  }
  return true;
}

bool has_only_lines_of(const VirtualFile& file, const Manifest::Entries& entries) {
  std::uint64_t most = 0;
  for (const auto& [path, entry] : entries) most += checksum_line(entry.sha256, path).size();
  if (file.size() > most) return false;
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return has_only_lines_of(text, entries);
}

}  // namespace reshardfs
