// SPDX-License-Identifier: Apache-2.0
#include "export/other_object_manifests.h"

#include <cstddef>
#include <utility>

#include "reshardfs/error.h"

#include "export/manifest_text.h"
#include "export/other_manifests.h"
#include "transport/s3_objects.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

/// @throws Error kUsage if it is not the same; kIo.
Manifest::Entries read_entries(const ObjectFolder& folder, const std::string& name,
                               const Json& identity, const IsSameHeader& is_same) {
  Manifest::Entries entries;
  const auto text = read_s3_text(folder.name(name), ObjectFolder::kMaxTextBytes);
  if (!text) return entries;
  try {
    parse_manifest(*text, is_same, identity, /*force=*/false, entries);
  } catch (Error& error) {
    error.in_file(folder.shown(name));
    throw;
  }
  return entries;
}

}  // namespace

OtherObjectManifests::OtherObjectManifests(const ObjectFolder& folder, const Json& identity,
                                           const std::optional<SharePlan>& own,
                                           const ObjectFolder::Objects& objects, bool force)
    : folder_(folder), identity_(identity), own_(own) {
  std::size_t looked_at = 0;
  for (const auto& [name, object] : objects) {
    const auto share = share_of_manifest(name);
    if (!own_) {
      if (share) take_over(name, force);
    } else if (name == Manifest::kName) {
      take_over(name, force);
    } else if (share && share->count != own_->share.count) {
      if (!force) throw_other_split(folder_.shown(name), *share);
      remove_s3_object(folder_.name(name));
    } else if (share && share->index != own_->share.index && !force &&
               looked_at++ < kMostManifestsLookedAt) {
      // With --force it is begun anew by the process whose share it is.
      const Json wanted = manifest_header(identity_, SharePlan{*share, own_->files_sum});
      read_entries(folder_, name, identity_, [&](const Json& header) { return header == wanted; });
    }
  }
}

void OtherObjectManifests::take_over(const std::string& name, bool force) {
  try {
    Manifest::Entries entries = read_entries(folder_, name, identity_, same_conversion(identity_));
    known_.merge(entries);
  } catch (const Error& error) {
    if (!force || error.kind() != ErrorKind::kUsage) throw;
    remove_s3_object(folder_.name(name));
  }
}

std::optional<Manifest::Entries> read_object_share(const ObjectFolder& folder, const Json& identity,
                                                   const SharePlan& share, bool complete) {
  const auto text =
      read_s3_text(folder.name(manifest_name(share.share)), ObjectFolder::kMaxTextBytes);
  if (!text) return std::nullopt;
  const Json header = manifest_header(identity, share);
  if (complete && !text->ends_with(manifest_last_line(header))) return std::nullopt;
  Manifest::Entries entries;
  const std::uint64_t good = parse_manifest(
      *text, [&](const Json& found) { return found == header; }, identity, /*force=*/true, entries);
  if (good == 0 || (complete && good != text->size())) return std::nullopt;
  return entries;
}

}  // namespace reshardfs
