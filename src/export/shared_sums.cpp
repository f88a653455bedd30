// SPDX-License-Identifier: Apache-2.0
#include "export/shared_sums.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "reshardfs/error.h"

#include "export/checksums.h"
#include "export/existing_file.h"
#include "export/partial_file.h"

namespace reshardfs {

bool SharedSums::is_there(const std::string& path, const Manifest::Entry& entry) const {
  return standing_of(root_, path, entry.size) == Standing::kSameSize;
}

bool SharedSums::has_text(const std::filesystem::path& name, const std::string& text) const {
  if (standing_of(root_, name, text.size()) != Standing::kSameSize) return false;
  std::string found(text.size(), '\0');
  ExistingFile(root_, name, text.size()).read_at(0, std::as_writable_bytes(std::span(found)));
  return found == text;
}

void SharedSums::add_others(Manifest::Entries& entries, bool force) const {
  entries.insert(known_.begin(), known_.end());
  for (const std::string& name : root_.names()) {
    const auto share = share_of_manifest(name);
    if (!share || *share == own_.share || share->count != own_.share.count) continue;
    try {
      auto others = read_manifest(root_, identity_, SharePlan{*share, own_.files_sum});
      if (others) entries.merge(*others);
    } catch (const Error& error) {
      if (!force || error.kind() != ErrorKind::kUsage) throw;
    }
  }
}

std::optional<Share> SharedSums::write() const {
  Manifest::Entries all;
  for (Share share{0, own_.share.count}; share.index < share.count; ++share.index) {
    auto entries = read_complete_share(root_, identity_, {share, own_.files_sum});
    if (!entries || !std::all_of(entries->begin(), entries->end(), [&](const auto& entry) {
          return is_there(entry.first, entry.second);
        })) {
      return share;
    }
    all.merge(*entries);
  }
  for (const auto& [path, entry] : known_) {
    if (path != kChecksumFile && is_there(path, entry)) all.emplace(path, entry);
  }
  std::string text;
  for (const auto& [path, entry] : all) text += checksum_line(entry.sha256, path);
  // Whoever has seen the sums finds them as they were.
  if (!has_text(kChecksumFile, text)) {
    publish_text(root_, kChecksumFile, text);
    root_.sync();
  }
  return std::nullopt;
}

}  // namespace reshardfs
