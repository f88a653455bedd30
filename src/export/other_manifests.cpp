// SPDX-License-Identifier: Apache-2.0
#include "export/other_manifests.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "export/target_directory.h"

namespace reshardfs {

void throw_other_split(const std::filesystem::path& manifest, const Share& share) {
  throw Error(ErrorKind::kUsage,
              fmt::format("the directory holds an export in {} shares", share.count))
      .in_file(manifest)
      .hint(fmt::format("use --share I/{}, or finish it without --share; --force begins anew and "
                        "compares existing files with the source",
                        share.count));
}

OtherManifests::OtherManifests(const Folder& folder, const nlohmann::ordered_json& identity,
                               const std::optional<SharePlan>& own, bool force)
    : folder_(folder), identity_(identity), own_(own) {
  examine_shares(force);
  if (own) examine_whole(force);
}

void OtherManifests::examine_shares(bool force) {
  std::size_t looked_at = 0;
  for (const std::string& name : folder_.names()) {
    const auto share = share_of_manifest(name);
    if (!share) continue;
    if (!own_) {
      take_over(*share, force);
    } else if (share->count != own_->share.count) {
      if (!force || !remove(name)) throw_other_split(folder_.path() / name, *share);
    } else if (share->index != own_->share.index && !force &&
               looked_at++ < kMostManifestsLookedAt) {
      // With --force it is begun anew by the process whose share it is.
      read_manifest(folder_, identity_, SharePlan{*share, own_->files_sum});
    }
  }
}

void OtherManifests::take_over(const Share& share, bool force) {
  try {
    auto entries = read_share_of_any_files(folder_, identity_, share);
    if (entries) known_.merge(*entries);
  } catch (const Error& error) {
    if (!force || error.kind() != ErrorKind::kUsage || !remove(manifest_name(share))) throw;
  }
}

void OtherManifests::examine_whole(bool force) {
  try {
    if (auto entries = read_manifest(folder_, identity_, {})) known_ = std::move(*entries);
  } catch (const Error& error) {
    if (!force || error.kind() != ErrorKind::kUsage || !remove(Manifest::kName)) throw;
  }
}

bool OtherManifests::remove(const std::string& name) const {
  const auto found = folder_.look_at(name);
  if (found && (!S_ISREG(found->st_mode) || found->st_nlink > 1)) return false;
  {
    const auto file = folder_.open_file(name, O_RDWR);
    if (file && !try_lock(file->get(), Lock::kExclusive)) throw in_use_error(folder_.path());
  }
  // Another share may have been faster.
  if (::unlinkat(folder_.descriptor(), name.c_str(), 0) != 0 && errno != ENOENT) {
    throw io_error("remove", folder_.path() / name, errno);
  }
  return true;
}

void OtherManifests::require_none_running() {
  if (own_) {
    auto whole = folder_.open_file(Manifest::kName, O_RDONLY);
    if (!whole) return;
    if (!try_lock(whole->get(), Lock::kShared)) throw in_use_error(folder_.path());
    whole_.emplace(std::move(*whole));
    return;
  }
  for (const std::string& name : folder_.names()) {
    if (!share_of_manifest(name)) continue;
    const auto file = folder_.open_file(name, O_RDWR);
    if (file && !try_lock(file->get(), Lock::kExclusive)) throw in_use_error(folder_.path());
  }
}

}  // namespace reshardfs
