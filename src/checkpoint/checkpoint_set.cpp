// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_set.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/text/name_order.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/completeness.h"
#include "checkpoint/indexes/index_cache.h"
#include "checkpoint/indexes/index_reader.h"
#include "checkpoint/quantized/dequantize.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/set_age.h"
#include "checkpoint/source_links.h"
#include "checkpoint/stated_crcs.h"
#include "checkpoint/torch/state_key.h"
#include "checkpoint/torch/torch_rank_file.h"
#include "checkpoint/whole/below_key.h"
#include "checkpoint/whole/placed_names.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/hub_cache.h"
#include "storage/local/open_file_limit.h"

namespace reshardfs {
namespace {

/// @return a warning if any file states no CRC. @throws Error if a file does not match its CRC.
std::optional<std::string> require_crcs(std::span<const StoredFile> files, std::size_t threads) {
  const std::vector<CrcFinding> findings = compare_crcs(files, threads, nullptr);
  std::size_t without = 0;
  const StoredFile* first = nullptr;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (findings[i].error) throw Error(*findings[i].error);
    if (findings[i].check == CrcCheck::kGood) continue;
    if (without++ == 0) first = &files[i];
  }
  // MindSpore, too, loads a file without one when it is told to check CRCs.
  if (without == 0) return std::nullopt;
  if (without == files.size()) {
    return "--check-crc checks nothing: no file of the checkpoint has a CRC";
  }
  return "--check-crc: CRC good in " + counted(files.size() - without, "file") + ", none in " +
         counted(without, "file") + ", such as " + printable(first->path.string());
}

/// Servers answer many requests at once.
std::size_t threads_for(const std::vector<FoundFile>& files) {
  return !files.empty() && is_url(files.front().path) ? kRequestsAtOnce : 0;
}

RankFile open_as_it_is(const FoundFile& found) {
  RankFile file;
  file.rank = found.rank;
  file.part = found.part;
  file.path = found.path;
  if (found.content) file.source = found.content->opened();
  if (!file.source) file.source = open_file(found.path, found.tree);
  return file;
}

/// Gives the file what the set's metadata tells of it.
void describe(RankFile& file, const FoundFile& found) {
  if (!found.content) return;
  file.index = found.content->index();
  file.source = found.content->tensors(std::move(file.source));
  // Such a file is one of torch.save; others of a set have the format that their names tell.
  if (has_torch_name(file.path)) file.saved = file.source;
}

/// Looking at so many places of local files takes less than a second, even if none is in memory.
constexpr std::size_t kCheapPlaces = 2000;

bool are_cheap(const std::vector<FoundFile>& files) {
  std::size_t places = 0;
  for (const FoundFile& file : files) places += file.content ? file.content->places() : 0;
  return places <= kCheapPlaces;
}

/// Of a tensor in several files that cannot be read, the first reason.
std::vector<RefusedTensor> once_each(std::vector<std::vector<RefusedTensor>>& by_file) {
  std::vector<RefusedTensor> all;
  std::set<std::string> names;
  for (std::vector<RefusedTensor>& of_file : by_file) {
    for (RefusedTensor& tensor : of_file) {
      if (names.insert(tensor.name).second) all.push_back(std::move(tensor));
    }
  }
  return all;
}

void make_plain(RankFile& file, const CheckpointOptions& options) {
  if (file.index || !input_format_of(file.path).may_be_encrypted) {
    if (options.decryption) throw not_encrypted(file.source->name());
    return;
  }
  file.source = open_plain(std::move(file.source), options.decryption);
}

bool any_of_torch(const std::vector<RankFile>& files) {
  return std::any_of(files.begin(), files.end(),
                     [](const RankFile& file) { return file.of_torch(); });
}

void note_snapshot(const std::filesystem::path& source, Discovery& found) {
  const std::string words = snapshot_words(source);
  if (!words.empty()) found.notes.push_back("using " + words);
  if (auto warning = unfinished_download(source)) found.warnings.push_back(std::move(*warning));
}

/// Whether any name is in several of the files.
bool repeat_names(std::span<const RankFile> files) {
  if (files.size() < 2) return false;
  std::vector<std::string_view> names;
  std::vector<const RankFile*> holders;
  for (const RankFile& file : files) {
    for (const TensorEntry& entry : file.index->entries()) names.emplace_back(entry.name);
    holders.resize(names.size(), &file);
  }
  if (are_distinct(names)) return false;
  const std::vector<std::uint32_t> order = order_of_names(names);
  const auto repeated =
      std::adjacent_find(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return holders[a] != holders[b] && names[a] == names[b];
      });
  return repeated != order.end();
}

/// Whether each name is in the file whose number stands beside it.
bool are_in_place(const std::vector<std::pair<std::string, std::size_t>>& places,
                  const std::vector<RankFile>& files) {
  std::unordered_map<std::string_view, std::size_t> wanted;
  wanted.reserve(places.size());
  for (const auto& [name, number] : places) {
    if (!wanted.emplace(name, number).second) return false;
  }
  const auto take = [&](std::string_view name, std::size_t number) {
    const auto place = wanted.find(name);
    if (place != wanted.end() && place->second == number) wanted.erase(place);
  };
  for (std::size_t i = 0; i < files.size() && !wanted.empty(); ++i) {
    for (const TensorEntry& entry : files[i].index->entries()) take(entry.name, i);
    for (const RefusedTensor& tensor : files[i].index->refused()) take(tensor.name, i);
  }
  return wanted.empty();
}

void require_stated(const Completeness& completeness) {
  if (!completeness.missing.empty()) throw Error(completeness.missing.front());
}

}  // namespace

void CheckpointSet::set_completeness(Completeness statement) {
  completeness_ = std::make_shared<const Completeness>(std::move(statement));
}

RankFile open_rank_file(const FoundFile& found, const CheckpointOptions& options) {
  RankFile file = open_as_it_is(found);
  describe(file, found);
  make_plain(file, options);
  return file;
}

CheckpointSet::CheckpointSet(std::vector<RankFile> files,
                             std::shared_ptr<const Catalogue> catalogue,
                             std::optional<ObjectKey> identity)
    : files_(std::move(files)),
      catalogue_(std::move(catalogue)),
      identity_(identity),
      completeness_(std::make_shared<const Completeness>()) {
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
  require_boxes_to_be_placed();
  require_one_place_for_each_name();
  root_ = files_.front().path.parent_path().parent_path();
  std::vector<std::vector<RefusedTensor>> refused;
  for (const RankFile& file : files_) {
    if (file.index->refused().empty()) continue;
    refused.push_back(file.index->refused());
    if (files_.size() == 1) continue;  // the message is about that file
    const std::string name = printable(file.path.lexically_relative(root_).string());
    for (RefusedTensor& tensor : refused.back()) tensor.reason += " in " + name;
  }
  unreadable_ = once_each(refused);
}

/// A part must not be taken for the whole.
void CheckpointSet::require_boxes_to_be_placed() const {
  if (catalogue_ && catalogue_->has_boxes()) return;
  const auto file = std::find_if(files_.begin(), files_.end(), [](const RankFile& candidate) {
    return candidate.index->has_boxes();
  });
  if (file == files_.end()) return;
  const FileIndex& index = *file->index;
  const auto box =
      std::find_if(index.entries().begin(), index.entries().end(),
                   [&](const TensorEntry& entry) { return index.box_offsets(entry).has_value(); });
  throw Error(ErrorKind::kUnsupported,
              "is a part of a tensor, as torch.distributed.checkpoint saves them to safetensors")
      .in_file(file->path.string())
      .for_parameter(box->name)
      .hint("name the directory that has all of these files, and nothing else, as the source");
}

void CheckpointSet::require_one_place_for_each_name() const {
  const RankFile* looked_at = nullptr;  // of its rank all files
  bool repeated = false;
  for (const RankFile& file : files_) {
    const std::span<const RankFile> all = files_of(file.rank);
    if (&all.front() != looked_at) repeated = repeat_names(all);
    looked_at = &all.front();
    if (!repeated) continue;
    for (const RankFile& before : files_of(file.rank)) {
      if (&before == &file) break;
      if (before.index->has_only_boxes() && file.index->has_only_boxes()) continue;
      for (const TensorEntry& entry : file.index->entries()) {
        const TensorEntry* twin = before.index->find(entry.name);
        if (twin == nullptr) continue;
        // Boxes of one tensor may be anywhere.
        if (before.index->box_offsets(*twin) && file.index->box_offsets(entry)) continue;
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
  if (are_all_in_place(found.places, files_) || are_in_place(found.places, files_)) return;
  for (const auto& [name, number] : found.places) {
    if (files_[number].index->lists(name)) continue;
    throw Error(ErrorKind::kBadInput,
                "is missing from the file that the directory's name map lists for it")
        .in_file(files_[number].path.string())
        .for_parameter(name)
        .hint("bring the map and the files of one version of the model");
  }
}

bool CheckpointSet::takes_state_key() const {
  const RankFile& file = files_.front();
  return kind_takes_state_key_ &&
         (!catalogue_ || file.of_torch() || file.path.extension() == ".distcp");
}

void CheckpointSet::select_below(const CheckpointOptions& options) {
  if (options.state_key.empty() || catalogue_ || files_.front().of_torch()) return;
  take_below(options.state_key, options.state_key_option, files_);
  keep_state(options.state_key, unreadable_);
}

CheckpointSet CheckpointSet::open(const std::filesystem::path& named,
                                  const CheckpointOptions& options) {
  const std::filesystem::path path = settled_source(named);
  Discovery found = discover(path, options);
  note_snapshot(path, found);
  require_stated(found.completeness);
  std::vector<RankFile> files(found.files.size());
  raise_open_file_limit(found.files.size());
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
  const bool described = std::any_of(found.files.begin(), found.files.end(),
                                     [](const FoundFile& file) { return file.content != nullptr; });
  const bool cheap = are_cheap(found.files);
  std::vector<std::vector<RefusedTensor>> unreadable(described ? files.size() : 0);
  for_each_file([&](std::size_t i) {
    files[i] = open_as_it_is(found.files[i]);
    if (!found.files[i].content) return;
    describe(files[i], found.files[i]);
    const ByteSource& tensors = *files[i].source;
    unreadable[i] = found.files[i].content->examine(tensors, cheap && !tensors.is_far());
  });
  // Nothing is kept of what is decrypted.
  const IndexCache cache = options.decryption || described ? IndexCache() : IndexCache(files);
  if (described && options.decryption) throw not_encrypted(path.string());
  std::vector<SavedBeside> beside(files.size());
  if (!described && !cache.load(files, options)) {
    for_each_file([&](std::size_t i) {
      make_plain(files[i], options);
      open_if_torch(files[i], options, beside[i]);
    });
    const Likenesses likenesses = read_indexes(files, options);
    // What lies behind the end of a file of torch.save is not kept with its index.
    if (!any_of_torch(files)) cache.store(files, likenesses);
  }
  beside.push_back(std::move(found.beside));
  SavedBeside saved = joined(std::move(beside));
  if (found.catalogue || any_of_torch(files)) require_state(files, options, saved);
  std::optional<std::string> no_crc;
  if (options.check_crc) {
    const auto stored = stored_files(found.files, files, found.catalogue.get());
    no_crc = require_crcs(stored, threads_for(found.files));
  }

  const std::vector<std::string> elsewhere = take_places(found.places, files);
  auto identity = any_of_torch(files) ? std::nullopt : cache.key();
  CheckpointSet set(std::move(files), std::move(found.catalogue), std::move(identity));
  set.require_places(found);
  if (found.by_contents) found.by_contents(set.files(), found.completeness);
  require_stated(found.completeness);
  set.select_below(options);
  unreadable.push_back(std::move(set.unreadable_));
  if (found.completeness.config.empty()) found.completeness.config = config_of(path, options);
  set.set_completeness(std::move(found.completeness));
  if (options.dequantize) set.dequantize(path, options);
  set.unreadable_ = once_each(unreadable);
  set.root_ = path;
  set.described_by_ = found.format;
  set.kind_takes_state_key_ = found.takes_state_key;
  set.step_ = std::move(found.step);
  set.steps_ = std::move(found.steps);
  set.series_ = std::move(found.series);
  set.notes_ = std::move(found.notes);
  for (std::string& note : notes_of(saved, options)) set.notes_.push_back(std::move(note));
  set.beside_ = std::move(saved);
  set.warnings_ = std::move(found.warnings);
  if (!elsewhere.empty()) set.warnings_.push_back(in_two_files(elsewhere));
  if (auto warning = newer_than_table(found, set.files_)) {
    set.warnings_.push_back(std::move(*warning));
  }
  if (options.decryption && !options.decryption->warning().empty()) {
    set.notes_.push_back(options.decryption->warning());
  }
  if (no_crc) set.warnings_.push_back(std::move(*no_crc));
  return set;
}

void CheckpointSet::dequantize(const std::filesystem::path& path,
                               const CheckpointOptions& options) {
  std::filesystem::path config = options.model_config;
  SourceTreePtr tree;
  if (config.empty()) {
    const bool is_file = path_kind(path, options.listed) == PathKind::kOther;
    config = is_file ? config_of(path.parent_path(), options) : completeness_->config;
    tree = source_tree(is_file ? path.parent_path() : path, options);
  } else if (path_kind(config) == PathKind::kDirectory) {
    config /= "config.json";
  }
  if (!tree) tree = recording(nullptr, inputs_of(options.listed));
  reshardfs::dequantize(files_, catalogue_ && catalogue_->states_layouts(), config, tree);
  identity_ = std::nullopt;  // it names what the files have, not what is shown
}

std::vector<RefusedTensor> CheckpointSet::refused() const {
  std::vector<RefusedTensor> all =
      catalogue_ ? catalogue_->refused() : std::vector<RefusedTensor>();
  all.insert(all.end(), unreadable_.begin(), unreadable_.end());
  return all;
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
