// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/fstab_checks.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/posix/mount_table.h"
#include "base/text/near_name.h"
#include "base/text/numbers.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "cli/doctor/mount_checks.h"
#include "cli/words/mount_helper.h"
#include "storage/byte_source.h"
#include "storage/local/directory.h"
#include "storage/location.h"

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

constexpr std::uint64_t kMaxFstabBytes = 1 << 20;
constexpr const char* kFstabCheck = "fstab-file";
constexpr const char* kBootCheck = "boot";
constexpr const char* kMountHelper = "/sbin/mount.reshardfs";

/// The command that sets a word in front of an entry's options.
std::string add_word(const std::string& word, const FstabEntry& entry, const std::string& file) {
  return fmt::format(R"(sed -E -i '{}s/^(\s*\S+\s+\S+\s+\S+\s+)/\1{},/' {})", entry.line, word,
                     shell_word(file));
}

Finding check_helper() {
  Finding finding{.name = "mount-helper", .message = std::string(kMountHelper) + " is there"};
  if (::access(kMountHelper, X_OK) == 0) return finding;
  finding.health = Health::kFailed;
  finding.message =
      std::string("mount(8) finds no program for the type reshardfs: there is no ") + kMountHelper;
  finding.remedy = fmt::format("ln -s \"$(command -v reshardfs)\" {}", kMountHelper);
  return finding;
}

/// A value of an entry's option; empty: it has none.
std::string value_of(const FstabEntry& entry, std::string word) {
  for (int i = 0; i < 2; ++i) {
    for (const std::string& option : entry.options) {
      if (option.starts_with(word + "=")) return option.substr(word.size() + 1);
    }
    std::replace(word.begin(), word.end(), '_', '-');
  }
  return "";
}

Findings check_boot(const FstabEntry& entry, const std::string& file) {
  Findings findings;
  const auto warn = [&](const std::string& message, const std::string& word) {
    findings.push_back({.name = kBootCheck,
                        .health = Health::kWarning,
                        .message = message,
                        .remedy = add_word(word, entry, file)});
  };
  if (entry.has_option("noauto")) {
    return {{.name = kBootCheck, .message = "is not mounted at boot (noauto)"}};
  }
  if (!entry.has_option("nofail")) {
    warn("without nofail the machine does not finish booting if this mount fails", "nofail");
  }
  const std::vector<std::string> read{entry.source, value_of(entry, "src_strategy"),
                                      value_of(entry, "dst_strategy")};
  const auto far = std::find_if(read.begin(), read.end(), [](const std::string& place) {
    return !place.empty() && is_far(place);
  });
  if (far != read.end() && !entry.has_option("_netdev")) {
    warn(printable(shown_location(*far)) +
             " needs the network, and without _netdev the mount may come before it",
         "_netdev");
  }
  if (!value_of(entry, "wait_for_source").empty() && !entry.has_option("x-systemd.mount-timeout")) {
    warn("wait_for_source is cut short: systemd gives a mount 90 s without x-systemd.mount-timeout",
         "x-systemd.mount-timeout=infinity");
  }
  if (findings.empty()) findings.push_back({.name = kBootCheck, .message = "nothing is missing"});
  return findings;
}

Findings check_lines(const FstabFile& file) {
  const std::size_t count = file.entries.size();
  Findings findings{{.name = kFstabCheck,
                     .health = count == 0 ? Health::kWarning : Health::kOk,
                     .message = count == 0
                                    ? "has no entry of the type reshardfs"
                                    : "entries of the type reshardfs: " + std::to_string(count)}};
  if (file.unreadable.empty()) return findings;
  findings.push_back(
      {.name = kFstabCheck,
       // Where an entry is expected, it may be in such a line.
       .health = count == 0 ? Health::kFailed : Health::kWarning,
       .message = fmt::format("{} no entry of fstab(5), from line {} on",
                              file.unreadable.size() == 1
                                  ? "1 line is"
                                  : std::to_string(file.unreadable.size()) + " lines are",
                              file.unreadable.front()),
       .remedy = "correct the file, or name another one"});
  return findings;
}

Findings check_entry(const FstabEntry& entry, const std::string& file,
                     const BoundedChecks& bounded) {
  if (entry.type != kHelperType) {
    return {{.name = "type",
             .health = Health::kFailed,
             .message = entry.type == kMountType
                            ? "the type fuse.reshardfs runs the program without a command"
                            : "the type is '" + printable(entry.type) + "', not 'reshardfs'",
             .remedy = fmt::format(R"(sed -E -i '{}s/^(\s*\S+\s+\S+\s+)\S+/\1{}/' {})", entry.line,
                                   kHelperType, shell_word(file))}};
  }
  std::vector<std::string> words{entry.source, entry.mountpoint};
  if (!entry.options.empty()) {
    words.emplace_back("-o");
    words.push_back(fmt::format("{}", fmt::join(entry.options, ",")));
  }
  Findings findings = check_mount(*mount_helper_arguments("mount.reshardfs", words), bounded);
  const Findings boot = bounded.run(kBootCheck, shown_location(entry.source),
                                    [&] { return check_boot(entry, file); });
  findings.insert(findings.end(), boot.begin(), boot.end());
  return findings;
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

Findings check_fstab(const std::string& file, const BoundedChecks& bounded) {
  const std::string path = std::filesystem::absolute(file).string();
  const auto read = [&] { return parse_fstab(read_small_file(path, kMaxFstabBytes)); };
  Findings findings = bounded.run(kFstabCheck, path, [&] { return check_lines(read()); });
  findings = about(path, std::move(findings));
  if (findings.front().health != Health::kOk) return findings;
  findings.push_back(check_helper());
  for (const FstabEntry& entry : read().entries) {
    Findings more =
        about(fmt::format("{}:{}", path, entry.line), check_entry(entry, path, bounded));
    findings.insert(findings.end(), more.begin(), more.end());
  }
  return findings;
}

}  // namespace reshardfs
