// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/indexes/index_cache.h"

#include <map>
#include <string>
#include <utility>

#include "base/version.h"
#include "checkpoint/indexes/index_reader.h"
#include "format/index/kept_indexes.h"
#include "storage/remote/cached_fetcher.h"

namespace reshardfs {
namespace {

/// Another version may read files in another way. The number is that of the message's layout.
/// @param sampled whether something was left for later.
std::string value_name(bool sampled) {
  return std::string(sampled ? "sampled" : "examined") + " indexes 2 " + kVersion;
}

/// The identities of all files of a set, in their order. Nothing if a file has none.
std::optional<ObjectKey> set_identity(const std::vector<RankFile>& files) {
  std::string all;
  for (const RankFile& file : files) {
    const std::string identity = file.source->identity();
    if (identity.empty()) return std::nullopt;
    // Each with its length, so that no two lists make one text.
    all.append(input_format_of(file.path).name).append(" ");
    all.append(std::to_string(identity.size())).append("\n").append(identity).append("\n");
  }
  return ObjectKey(all);
}

}  // namespace

IndexCache::IndexCache(const std::vector<RankFile>& files) {
  if (source_cache() == nullptr) return;
  key_ = set_identity(files);
  if (key_) cache_ = source_cache();
}

bool IndexCache::load(std::vector<RankFile>& files, const CheckpointOptions& options) const {
  if (!cache_) return false;
  std::optional<std::string> value = cache_->load(value_name(/*sampled=*/false), *key_);
  if (!value && !options.check_crc && !options.examine_all) {
    value = cache_->load(value_name(/*sampled=*/true), *key_);
  }
  const auto kept = value ? decode_indexes(*value) : std::nullopt;
  if (!kept || kept->files.size() != files.size()) return false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    files[i].index = kept->indexes[kept->files[i].index];
  }
  std::map<std::size_t, LeaderFramePtr> leaders;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!kept->files[i].like) continue;
    const std::size_t like = *kept->files[i].like;
    LeaderFramePtr& leader = leaders[like];
    if (!leader) leader = std::make_shared<const LeaderFrame>(files[like], nullptr);
    files[i].unexamined = files[i].source;
    files[i].source = assume_like(leader, files[i].source, input_format_of(files[i].path));
  }
  return true;
}

void IndexCache::store(const std::vector<RankFile>& files, const Likenesses& likenesses) const {
  if (!cache_) return;
  KeptIndexes kept;
  std::map<const FileIndex*, std::size_t> numbers;
  std::size_t entries = 0;
  bool sampled = false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto [number, is_new] = numbers.try_emplace(files[i].index.get(), kept.indexes.size());
    if (is_new) {
      entries += files[i].index->entries().size();
      if (entries > kMostEntries) return;
      kept.indexes.push_back(files[i].index);
    }
    kept.files.push_back({number->second, likenesses[i]});
    sampled = sampled || likenesses[i];
  }
  cache_->store(value_name(sampled), *key_, encode_indexes(kept));
}

}  // namespace reshardfs
