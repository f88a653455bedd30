// SPDX-License-Identifier: Apache-2.0
#include "export/object_manifest.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "reshardfs/error.h"

#include "export/manifest_text.h"
#include "transport/s3_objects.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

// So much may have to be written again after a kill, beside what was under way. A small file costs
// a request, as some bytes do.
constexpr std::uint64_t kSavedBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kRequestBytes = std::uint64_t{1} << 20U;

}  // namespace

ObjectManifest::ObjectManifest(const ObjectFolder& folder, const Json& identity, bool force,
                               const std::optional<SharePlan>& share)
    : folder_(folder),
      name_(share ? manifest_name(share->share) : Manifest::kName),
      header_(manifest_header(identity, share)) {
  seen_ = read().value_or("");
  try {
    begun_ = parse_manifest(
                 seen_, [&](const Json& header) { return header == header_; }, identity, force,
                 entries_) > 0;
  } catch (Error& error) {
    error.in_file(folder_.shown(name_));
    throw;
  }
}

std::optional<std::string> ObjectManifest::read() const {
  return read_s3_text(folder_.name(name_), ObjectFolder::kMaxTextBytes);
}

const Manifest::Entry* ObjectManifest::find(const std::string& path) const {
  const auto found = entries_.find(path);
  return found == entries_.end() ? nullptr : &found->second;
}

void ObjectManifest::set(const std::string& path, Manifest::Entry entry) {
  entries_[path] = std::move(entry);
}

void ObjectManifest::add(const std::string& path, Manifest::Entry entry) {
  {
    const std::lock_guard lock(mutex_);
    unsaved_bytes_ += std::max(entry.size, kRequestBytes);
    entries_[path] = std::move(entry);
    // Large manifests less often, so that they stay a small part of what is sent.
    if (unsaved_bytes_ < std::max(kSavedBytes, entries_.size() * kRequestBytes / 16)) return;
    unsaved_bytes_ = 0;
  }
  save();
}

std::string ObjectManifest::text() {
  const std::lock_guard lock(mutex_);
  std::string text = manifest_line(header_);
  for (const auto& [path, entry] : entries_) text += manifest_entry_line(path, entry);
  return text;
}

void ObjectManifest::save() {
  const std::lock_guard lock(store_mutex_);
  store(text(), /*is_complete=*/false);
}

void ObjectManifest::complete(const std::vector<std::string>& paths) {
  const std::lock_guard lock(store_mutex_);
  std::string text = manifest_line(header_);
  for (const std::string& path : std::set<std::string>(paths.begin(), paths.end())) {
    text += manifest_entry_line(path, entries_.at(path));
  }
  store(text + manifest_last_line(header_), /*is_complete=*/true);
}

void ObjectManifest::store(const std::string& text, bool is_complete) {
  const std::string there = read().value_or("");
  const std::string header = manifest_line(header_);
  if (begun_ && !there.starts_with(header)) {
    throw Error(ErrorKind::kUsage, "another export has begun in the place of this one")
        .in_file(folder_.shown(name_))
        .hint("let only one of them run");
  }
  // The same share in another process: after the failure of a node, for example.
  const bool was_completed =
      there != seen_ && there.starts_with(header) && there.ends_with(manifest_last_line(header_));
  if (there != text && (is_complete || !was_completed)) {
    write_s3_object(folder_.name(name_), std::as_bytes(std::span(text)));
    seen_ = text;
  }
  begun_ = true;
}

}  // namespace reshardfs
