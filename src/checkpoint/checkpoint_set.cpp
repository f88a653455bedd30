// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_set.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "reshardfs/error.h"

#include "base/parallel.h"
#include "base/rank_list.h"
#include "base/url_path.h"
#include "checkpoint/discovery.h"
#include "checkpoint/index_cache.h"
#include "checkpoint/index_reader.h"
#include "storage/open_file_limit.h"

namespace reshardfs {
namespace {

/// @return whether there is a trailer. @throws Error kBadInput if it does not fit the file.
bool check_trailer(const RankFile& file) {
  const CrcCheck result = input_format_of(file.path).check_crc(*file.source);
  if (result == CrcCheck::kBad) {
    throw Error(ErrorKind::kBadInput, "the file does not match its CRC trailer: it is damaged")
        .in_file(file.source->name())
        .hint("copy it again, or choose another step");
  }
  return result == CrcCheck::kGood;
}

}  // namespace

namespace {

/// Servers answer many requests at once.
std::size_t threads_for(const std::vector<FoundFile>& files) {
  return !files.empty() && is_url(files.front().path) ? kRequestsAtOnce : 0;
}

RankFile open_as_it_is(const FoundFile& found) {
  RankFile file;
  file.rank = found.rank;
  file.part = found.part;
  file.path = found.path;
  file.source = open_file(found.path, found.tree);
  if (found.content) {
    file.index = found.content->index();
    file.source = found.content->tensors(std::move(file.source));
  }
  return file;
}

void make_plain(RankFile& file, const CheckpointOptions& options) {
  if (file.index || !input_format_of(file.path).may_be_encrypted) return;
  file.source = open_plain(std::move(file.source), options.decryption);
}

}  // namespace

RankFile open_rank_file(const FoundFile& found, const CheckpointOptions& options) {
  RankFile file = open_as_it_is(found);
  make_plain(file, options);
  return file;
}

CheckpointSet::CheckpointSet(std::vector<RankFile> files,
                             std::shared_ptr<const Catalogue> catalogue,
                             std::optional<ObjectKey> identity)
    : files_(std::move(files)), catalogue_(std::move(catalogue)), identity_(std::move(identity)) {
  if (files_.empty()) throw Error(ErrorKind::kBadInput, "a checkpoint set needs at least one file");
  std::sort(files_.begin(), files_.end(), [](const RankFile& a, const RankFile& b) {
    return std::pair(a.rank, a.part) < std::pair(b.rank, b.part);
  });
  const auto twice =
      std::adjacent_find(files_.begin(), files_.end(), [](const RankFile& a, const RankFile& b) {
        return a.rank == b.rank && (a.part == b.part || a.part < 0);
      });
  if (twice != files_.end()) {
    throw Error(ErrorKind::kBadInput, "two files of one rank: '" + printable(twice->path.string()) +
                                          "' and '" + printable((twice + 1)->path.string()) + "'")
        .for_rank(twice->rank);
  }
  require_one_place_for_each_name();
  root_ = files_.front().path.parent_path().parent_path();
}

void CheckpointSet::require_one_place_for_each_name() const {
  for (const RankFile& file : files_) {
    for (const RankFile& before : files_of(file.rank)) {
      if (&before == &file) break;
      if (before.index->has_only_pieces() && file.index->has_only_pieces()) continue;
      for (const TensorEntry& entry : file.index->entries()) {
        const TensorEntry* twin = before.index->find(entry.name);
        if (twin == nullptr) continue;
        // Pieces of one tensor may be anywhere.
        if (before.index->piece_offsets(*twin) && file.index->piece_offsets(entry)) continue;
        throw Error(ErrorKind::kBadInput, "appears in two parts: in '" +
                                              printable(before.path.string()) + "' and in '" +
                                              printable(file.path.string()) + "'")
            .for_rank(file.rank)
            .for_parameter(entry.name);
      }
    }
  }
}

/// A map that does not fit its files may belong to another version of the model.
void CheckpointSet::require_places(const Discovery& found) const {
  for (const auto& [name, number] : found.places) {
    if (files_[number].index->find(name) != nullptr) continue;
    throw Error(ErrorKind::kBadInput,
                "is missing from the file that the directory's name map lists for it")
        .in_file(files_[number].path.string())
        .for_parameter(name)
        .hint("bring the map and the files of one version of the model");
  }
}

CheckpointSet CheckpointSet::open(const std::filesystem::path& path,
                                  const CheckpointOptions& options) {
  Discovery found = discover(path, options);
  std::vector<RankFile> files(found.files.size());
  raise_open_file_limit(found.files.size());
  // Not vector<bool>: its neighbours share a byte, and threads write them.
  std::vector<char> has_trailer(found.files.size(), 1);
  const auto for_each_file = [&](const auto& work) {
    parallel_for(
        found.files.size(),
        [&](std::size_t i) {
          try {
            work(i);
          } catch (Error& error) {
            error.in_file(found.files[i].path.string());
            throw;
          }
        },
        threads_for(found.files));
  };
  for_each_file([&](std::size_t i) { files[i] = open_as_it_is(found.files[i]); });
  // Nothing is kept of what is decrypted.
  const bool described = std::any_of(found.files.begin(), found.files.end(),
                                     [](const FoundFile& file) { return file.content != nullptr; });
  const IndexCache cache = options.decryption || described ? IndexCache() : IndexCache(files);
  if (!described && !cache.load(files, options)) {
    for_each_file([&](std::size_t i) { make_plain(files[i], options); });
    cache.store(files, read_indexes(files, options));
  }
  if (options.check_crc && !described) {
    for_each_file([&](std::size_t i) { has_trailer[i] = check_trailer(files[i]) ? 1 : 0; });
  }

  CheckpointSet set(std::move(files), std::move(found.catalogue), cache.key());
  set.require_places(found);
  set.root_ = path;
  set.step_ = std::move(found.step);
  set.steps_ = std::move(found.steps);
  set.notes_ = std::move(found.notes);
  std::vector<Rank> unchecked;
  for (std::size_t i = 0; i < has_trailer.size(); ++i) {
    const Rank rank = found.files[i].rank;
    const bool listed = !unchecked.empty() && unchecked.back() == rank;
    if (has_trailer[i] == 0 && !listed) unchecked.push_back(rank);
  }
  if (options.decryption && !options.decryption->warning().empty()) {
    set.notes_.push_back(options.decryption->warning());
  }
  if (!unchecked.empty()) {
    set.notes_.push_back("no CRC trailer to check on rank " + format_rank_list(unchecked));
  }
  return set;
}

std::span<const RankFile> CheckpointSet::files_of(Rank rank) const noexcept {
  const auto begin = std::partition_point(
      files_.begin(), files_.end(), [rank](const RankFile& file) { return file.rank < rank; });
  const auto end =
      std::find_if(begin, files_.end(), [rank](const RankFile& file) { return file.rank != rank; });
  return {begin, end};
}

const RankFile* CheckpointSet::find(Rank rank) const noexcept {
  const std::span<const RankFile> files = files_of(rank);
  return files.empty() ? nullptr : &files.front();
}

std::vector<Rank> CheckpointSet::missing_ranks(const RankRange& wanted) const {
  std::vector<Rank> missing;
  for (const Rank rank : wanted) {
    if (find(rank) == nullptr) missing.push_back(rank);
  }
  return missing;
}

std::int64_t CheckpointSet::mtime_ns() const noexcept {
  std::int64_t newest = std::numeric_limits<std::int64_t>::min();
  for (const RankFile& file : files_) newest = std::max(newest, file.source->mtime_ns());
  return newest;
}

}  // namespace reshardfs
