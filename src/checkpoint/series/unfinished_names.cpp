// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/unfinished_names.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr std::array<std::string_view, 6> kSuffixes = {".tmp",        ".part",       ".partial",
                                                       ".incomplete", ".crdownload", ".download"};
constexpr std::string_view kInPlaceSuffix = ".aria2";
constexpr std::size_t kRsyncLetters = 6;

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// The name in ".NAME.XXXXXX", where it has an extension of its own.
std::optional<std::string> name_in_rsync(std::string_view name) {
  if (name.size() < kRsyncLetters + 4 || name.front() != '.') return std::nullopt;
  const std::string_view end = name.substr(name.size() - kRsyncLetters - 1);
  if (end.front() != '.' || !std::all_of(end.begin() + 1, end.end(), is_letter_or_digit)) {
    return std::nullopt;
  }
  const std::string_view inner = name.substr(1, name.size() - end.size() - 1);
  if (inner.find('.') == std::string_view::npos) return std::nullopt;
  return std::string(inner);
}

}  // namespace

std::optional<UnfinishedName> unfinished_name(std::string_view name) {
  const auto without = [&](std::string_view suffix) {
    return std::string(name.substr(0, name.size() - suffix.size()));
  };
  if (name.ends_with(kInPlaceSuffix)) return UnfinishedName{without(kInPlaceSuffix), true};
  for (const std::string_view suffix : kSuffixes) {
    if (name.ends_with(suffix)) return UnfinishedName{without(suffix)};
  }
  if (auto inner = name_in_rsync(name)) return UnfinishedName{std::move(*inner)};
  return std::nullopt;
}

std::vector<std::string> unfinished_files(const std::filesystem::path& directory,
                                          const std::vector<DirectoryEntry>& entries,
                                          std::string_view extension) {
  std::vector<std::string> warnings;
  for (const DirectoryEntry& entry : entries) {
    const auto unfinished = unfinished_name(entry.name);
    if (!unfinished || !unfinished->finished.ends_with(extension)) continue;
    const bool is_there = std::any_of(
        entries.begin(), entries.end(),
        [&](const DirectoryEntry& other) { return other.name == unfinished->finished; });
    if (is_there && unfinished->in_place) throw still_downloaded(directory / unfinished->finished);
    if (!is_there) {
      warnings.push_back(printable(entry.name) + " was left out: a copy or download of " +
                         printable(unfinished->finished) + " that has not ended");
    }
  }
  return warnings;
}

Error still_downloaded(const std::filesystem::path& file) {
  return Error(ErrorKind::kBadInput,
               "is being downloaded, or its download broke off: " +
                   printable(file.filename().string() + std::string(kInPlaceSuffix)) +
                   " lies beside it")
      .in_file(file.string())
      .hint("let the download end; remove that file only if you know the data is whole");
}

}  // namespace reshardfs
