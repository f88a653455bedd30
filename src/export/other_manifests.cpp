// SPDX-License-Identifier: Apache-2.0
#include "export/other_manifests.h"

#include <cstddef>
#include <filesystem>

#include <fmt/format.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// Every process that begins has looked at some of the other shares' manifests, so all that there
/// are should be the same. Many processes that look at as many manifests would be a burden.
constexpr std::size_t kMostLookedAt = 16;

[[noreturn]] void throw_other_split(const std::filesystem::path& manifest, const Share& share) {
  throw Error(ErrorKind::kUsage,
              fmt::format("the directory holds an export in {} shares", share.count))
      .in_file(manifest)
      .hint(fmt::format("use --share I/{}, or finish it without --share; --force begins anew and "
                        "compares existing files with the source",
                        share.count));
}

}  // namespace

OtherManifests::OtherManifests(const Target& target, const std::string& identity,
                               const std::optional<SharePlan>& own, bool force)
    : target_(target), identity_(identity), own_(own) {
  std::size_t looked_at = 0;
  for (const std::string& name : target_.names(kManifestPrefix)) {
    const auto share = share_of_manifest(name);
    if (name == Manifest::kName ? own_.has_value() : share && !own_) {
      take_over(name, force);
    } else if (!share || !own_ || *share == own_->share) {
      continue;
    } else if (share->count != own_->share.count) {
      if (!force || !target_.revoke(name)) throw_other_split(target_.shown(name), *share);
    } else if (!force && looked_at++ < kMostLookedAt) {
      // With --force it is begun anew by the process whose share it is.
      read(name, same_files(identity_, SharePlan{*share, own_->files_sum}));
    }
  }
}

void OtherManifests::take_over(const std::string& name, bool force) {
  try {
    if (auto entries = read(name, same_conversion(identity_))) known_.merge(*entries);
  } catch (const Error& error) {
    if (!force || error.kind() != ErrorKind::kUsage || !target_.revoke(name)) throw;
  }
}

std::optional<Manifest::Entries> OtherManifests::read(const std::string& name,
                                                      const IsSameHeader& is_same) const {
  const auto text = target_.read(name);
  if (!text) return std::nullopt;
  Manifest::Entries entries;
  parse_manifest(target_.shown(name), *text, is_same, identity_, /*force=*/false, entries);
  return entries;
}

void OtherManifests::add_all(Manifest::Entries& entries, bool force) const {
  entries.insert(known_.begin(), known_.end());
  if (!own_) return;
  for (const std::string& name : target_.names(kManifestPrefix)) {
    const auto share = share_of_manifest(name);
    if (!share || *share == own_->share || share->count != own_->share.count) continue;
    try {
      if (auto others = read(name, same_files(identity_, SharePlan{*share, own_->files_sum})))
        entries.merge(*others);
    } catch (const Error& error) {
      if (!force || error.kind() != ErrorKind::kUsage) throw;
    }
  }
}

std::optional<Manifest::Entries> read_complete_share(const Target& target,
                                                     const std::string& identity,
                                                     const SharePlan& share) {
  const std::string name = manifest_name(share.share);
  const std::string header = manifest_header(identity, share);
  const auto text = target.read(name, manifest_last_line(header));
  if (!text) return std::nullopt;
  Manifest::Entries entries;
  const std::uint64_t good = parse_manifest(target.shown(name), *text, same_files(identity, share),
                                            identity, /*force=*/true, entries);
  // A damaged line, or one that another process has added meanwhile.
  if (good != text->size()) return std::nullopt;
  return entries;
}

}  // namespace reshardfs
