// SPDX-License-Identifier: Apache-2.0
#include "export/object_sums.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "export/checksums.h"
#include "export/other_object_manifests.h"
#include "transport/s3_objects.h"

namespace reshardfs {
namespace {

bool is_there(const ObjectFolder::Objects& objects, const std::string& path,
              const Manifest::Entry& entry) {
  const auto found = objects.find(path);
  return found != objects.end() && is_recorded(found->second, entry);
}

std::string text_of(const Manifest::Entries& entries) {
  std::string text;
  for (const auto& [path, entry] : entries) text += checksum_line(entry.sha256, path);
  return text;
}

}  // namespace

bool is_recorded(const S3Object& object, const Manifest::Entry& entry) {
  return !entry.etag.empty() && !entry.sha256.empty() && object.etag == entry.etag &&
         object.size == entry.size;
}

void write_object_sums(const ObjectFolder& folder, const std::string& text) {
  const S3Name name = folder.name(kChecksumFile);
  const auto there = look_at_s3_object(name);
  // What the store says is not read: its checksum may be of another kind.
  if (there && there->size == text.size() && read_s3_text(name, text.size()) == text) return;
  write_s3_object(name, std::as_bytes(std::span(text)));
}

std::string sums_of_objects(const ObjectFolder& folder, const Manifest::Entries& entries) {
  const ObjectFolder::Objects objects =
      folder.list([&](const std::string& path) { return entries.contains(path); });
  Manifest::Entries there;
  for (const auto& [path, entry] : entries) {
    if (path != kChecksumFile && is_there(objects, path, entry)) there.emplace(path, entry);
  }
  return text_of(there);
}

std::optional<Share> write_shared_object_sums(const ObjectFolder& folder,
                                              const nlohmann::ordered_json& identity,
                                              const SharePlan& own,
                                              const Manifest::Entries& known) {
  Manifest::Entries all;
  std::vector<std::pair<Share, std::vector<std::string>>> shares;
  for (Share share{0, own.share.count}; share.index < share.count; ++share.index) {
    auto entries = read_object_share(folder, identity, {share, own.files_sum}, /*complete=*/true);
    if (!entries) return share;
    std::vector<std::string>& paths = shares.emplace_back(share, std::vector<std::string>{}).second;
    for (const auto& [path, entry] : *entries) paths.push_back(path);
    all.merge(*entries);
  }
  const ObjectFolder::Objects objects = folder.list(
      [&](const std::string& path) { return all.contains(path) || known.contains(path); });
  for (const auto& [share, paths] : shares) {
    const bool is_complete = std::all_of(paths.begin(), paths.end(), [&](const auto& path) {
      return is_there(objects, path, all.at(path));
    });
    if (!is_complete) return share;
  }
  for (const auto& [path, entry] : known) {
    if (path != kChecksumFile && is_there(objects, path, entry)) all.emplace(path, entry);
  }
  write_object_sums(folder, text_of(all));
  return std::nullopt;
}

}  // namespace reshardfs
