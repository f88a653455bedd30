// SPDX-License-Identifier: Apache-2.0
#include "export/checksums.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "export/other_manifests.h"

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

namespace {

std::string text_of(const Target::Listing& there, const Manifest::Entries& entries) {
  std::string text;
  for (const auto& [path, entry] : entries) {
    if (path == kChecksumFile || !is_recorded(there, path, entry)) continue;
    if (entry.sha256.empty()) continue;  // shared with the source, and never read
    text += checksum_line(entry.sha256, path);
  }
  return text;
}

Target::Listing look_for(const Target& target, const Manifest::Entries& entries) {
  std::set<std::string> paths;
  for (const auto& [path, entry] : entries) paths.insert(path);
  return target.list(paths);
}

}  // namespace

bool is_recorded(const Target::Listing& there, const std::string& path,
                 const Manifest::Entry& entry) {
  const auto found = there.files.find(path);
  if (found == there.files.end() || found->second.size != entry.size) return false;
  const auto& version = found->second.version;
  return !version || (!version->empty() && *version == entry.etag && !entry.sha256.empty());
}

bool has_only_sums_of(const Target& target, const Target::Found& sums,
                      const Manifest::Entries& entries) {
  std::set<std::string> lines;
  std::uint64_t most = 0;
  for (const auto& [path, entry] : entries) {
    most += lines.insert(checksum_line(entry.sha256, path)).first->size();
  }
  if (sums.size > most) return false;
  const std::string text = target.read(kChecksumFile).value_or("");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    if (!lines.contains(text.substr(begin, end - begin))) return false;
    begin = end;
  }
  return true;
}

std::string sums_of(const Target& target, const Manifest::Entries& entries) {
  return text_of(look_for(target, entries), entries);
}

std::optional<Share> write_shared_sums(const Target& target, const std::string& identity,
                                       const SharePlan& own, const Manifest::Entries& known) {
  Manifest::Entries all = known;
  std::vector<std::pair<Share, Manifest::Entries>> shares;
  for (Share share{0, own.share.count}; share.index < share.count; ++share.index) {
    auto entries = read_complete_share(target, identity, {share, own.files_sum});
    if (!entries) return share;
    for (const auto& [path, entry] : *entries) all.insert_or_assign(path, entry);
    shares.emplace_back(share, std::move(*entries));
  }
  const Target::Listing there = look_for(target, all);
  for (const auto& [share, entries] : shares) {
    const bool is_complete = std::all_of(entries.begin(), entries.end(), [&](const auto& entry) {
      return is_recorded(there, entry.first, entry.second);
    });
    if (!is_complete) return share;
  }
  // A reader that has seen the sums finds them unchanged.
  target.put(kChecksumFile, text_of(there, all));
  return std::nullopt;
}

}  // namespace reshardfs
