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
#include "base/process/resource_limits.h"
#include "base/text/name_order.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/completeness.h"
#include "checkpoint/indexes/index_cache.h"
#include "checkpoint/indexes/index_reader.h"
#include "checkpoint/quantized/dequantize.h"
#include "checkpoint/quantized/nvfp4.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/set_age.h"
#include "checkpoint/source_links.h"
#include "checkpoint/stated_crcs.h"
#include "checkpoint/torch/state_key.h"
#include "checkpoint/torch/torch_file.h"
#include "checkpoint/whole/placed_names.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/hub_cache.h"

namespace reshardfs {
namespace {

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

}  // namespace

std::vector<RefusedTensor> CheckpointSet::once_each(
    std::vector<std::vector<RefusedTensor>>& by_file) {
  std::vector<RefusedTensor> all;
  std::set<std::string> names;
  for (std::vector<RefusedTensor>& of_file : by_file) {
    for (RefusedTensor& tensor : of_file) {
      if (names.insert(tensor.name).second) all.push_back(std::move(tensor));
    }
  }
  return all;
}

void CheckpointSet::set_completeness(Completeness statement) {
  completeness_ = std::make_shared<const Completeness>(std::move(statement));
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

bool CheckpointSet::takes_state_key() const {
  const RankFile& file = files_.front();
  return kind_takes_state_key_ && (!catalogue_ || applies_state_key_ || file.of_torch());
}

void CheckpointSet::select_below(const CheckpointOptions& options) {
  if (options.state_key.empty() || catalogue_ || files_.front().of_torch()) return;
  take_below(options.state_key, options.state_key_option, files_);
  keep_state(options.state_key, unreadable_);
}

void CheckpointSet::show_weights(const std::filesystem::path& path,
                                 const CheckpointOptions& options) {
  if (options.dequantize && !options.quantize.empty()) {
    throw Error(ErrorKind::kUsage, "--dequantize and --quantize contradict each other")
        .hint("give one of them");
  }
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
  const bool has_layouts = catalogue_ && catalogue_->states_layouts();
  if (options.dequantize) {
    dequantize(files_, has_layouts, config, tree);
  } else {
    quantize_to_nvfp4(files_, has_layouts, config, tree);
  }
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
