// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/fstab_file.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/text/numbers.h"
#include "fuse/mounting/mount_table.h"

namespace reshardfs {
namespace {

std::optional<FstabEntry> parse_line(const std::string& line) {
  std::istringstream fields(line);
  FstabEntry entry;
  std::string options;
  // Fields that are missing are those of another file system, or of none.
  if (!(fields >> entry.source >> entry.mountpoint >> entry.type)) return std::nullopt;
  fields >> options;
  if (entry.source.starts_with('#')) return std::nullopt;
  entry.source = unescape_mount_field(entry.source);
  entry.mountpoint = unescape_mount_field(entry.mountpoint);
  std::istringstream words(unescape_mount_field(options));
  for (std::string word; std::getline(words, word, ',');) entry.options.push_back(word);
  return entry;
}

}  // namespace

bool FstabEntry::has_option(std::string_view word) const {
  return std::any_of(options.begin(), options.end(), [&](const std::string& option) {
    return option == word || (option.starts_with(word) && option.substr(word.size(), 1) == "=");
  });
}

std::vector<FstabEntry> reshardfs_entries(std::string_view fstab) {
  std::istringstream lines{std::string(fstab)};
  std::vector<FstabEntry> entries;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    auto entry = parse_line(line);
    if (!entry || (entry->type != "reshardfs" && entry->type != kMountType)) continue;
    entry->line = number;
    entries.push_back(std::move(*entry));
  }
  return entries;
}

}  // namespace reshardfs
