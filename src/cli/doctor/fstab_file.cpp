// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/fstab_file.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/posix/mount_table.h"
#include "base/text/near_name.h"
#include "base/text/numbers.h"

namespace reshardfs {
namespace {

bool says_nothing(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t\r");
  return begin == std::string::npos || line[begin] == '#';
}

std::optional<FstabEntry> parse_line(const std::string& line) {
  std::istringstream fields(line);
  FstabEntry entry;
  std::string options;
  if (!(fields >> entry.source >> entry.mountpoint >> entry.type)) return std::nullopt;
  fields >> options;
  entry.source = unescape_mount_field(entry.source);
  entry.mountpoint = unescape_mount_field(entry.mountpoint);
  std::istringstream words(unescape_mount_field(options));
  for (std::string word; std::getline(words, word, ',');) entry.options.push_back(word);
  return entry;
}

bool is_ours(const std::string& type) {
  const std::vector<std::string> ours{kHelperType, std::string(kMountType)};
  return std::find(ours.begin(), ours.end(), type) != ours.end() ||
         near_name(type, ours).has_value();
}

}  // namespace

bool FstabEntry::has_option(std::string_view word) const {
  return std::any_of(options.begin(), options.end(), [&](const std::string& option) {
    return option == word || (option.starts_with(word) && option.substr(word.size(), 1) == "=");
  });
}

FstabFile parse_fstab(std::string_view text) {
  std::istringstream lines{std::string(text)};
  FstabFile file;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (says_nothing(line)) continue;
    auto entry = parse_line(line);
    if (!entry || line.find('\0') != std::string::npos) {
      file.unreadable.push_back(number);
    } else if (is_ours(entry->type)) {
      entry->line = number;
      file.entries.push_back(std::move(*entry));
    }
  }
  return file;
}

}  // namespace reshardfs
