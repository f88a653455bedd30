// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/fsdp_set.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/rank_list.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/series/unfinished_names.h"
#include "checkpoint/set_format.h"
#include "checkpoint/shaped_catalogue.h"
#include "checkpoint/source_links.h"
#include "checkpoint/torch/read_archive.h"
#include "checkpoint/torch/saved_content.h"
#include "checkpoint/torch/state_key.h"
#include "checkpoint/torch/torch_file.h"
#include "checkpoint/torch/torch_rank_file.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRankFileExtension = ".pt";

/// "model_world_size_8_rank_3.pt"
struct RankFileName {
  std::int64_t world = 0;
  std::int64_t rank = 0;
};

std::optional<RankFileName> parse_name(std::string_view text) {
  constexpr std::string_view kBegin = "model_world_size_";
  constexpr std::string_view kRank = "_rank_";
  if (!text.starts_with(kBegin)) return std::nullopt;
  text.remove_prefix(kBegin.size());
  const auto world = take_number<std::int64_t>(text);
  if (!world || *world < 1 || !text.starts_with(kRank)) return std::nullopt;
  text.remove_prefix(kRank.size());
  const auto rank = take_number<std::int64_t>(text);
  if (!rank || *rank >= *world || text != kRankFileExtension) return std::nullopt;
  return RankFileName{*world, *rank};
}

/// What was read of one rank's file.
struct RankContent {
  ByteSourcePtr file;
  TorchSave saved;
};

class FsdpReader {
 public:
  FsdpReader(const fs::path& directory, const CheckpointOptions& options, const SourceTreePtr& tree)
      : directory_(directory), options_(options), tree_(tree) {}

  /// @param names of the files by rank; all of one world size.
  Discovery read(const std::map<std::int64_t, std::string>& names) {
    for (const auto& [rank, name] : names) {
      out_.files.push_back({Rank(rank), {}, directory_ / name, -1, tree_});
    }
    contents_.resize(out_.files.size());
    parallel_for(
        out_.files.size(), [this](std::size_t i) { read_file(i); },
        is_url(directory_) ? kRequestsAtOnce : 0);
    for (std::size_t i = 0; i < contents_.size(); ++i) take_shapes(i);
    parallel_for(out_.files.size(), [this](std::size_t i) { describe(i); });
    note_values();
    out_.completeness.grounds.push_back("the world size in " + counted(out_.files.size(), "name"));
    out_.completeness.counted = true;
    out_.catalogue = std::make_shared<const ShapedCatalogue>(
        static_cast<std::int64_t>(out_.files.size()), std::move(shapes_), std::move(refused_));
    return std::move(out_);
  }

 private:
  void read_file(std::size_t number) {
    const FoundFile& found = out_.files[number];
    RankContent& content = contents_[number];
    content.file = open_file(found.path, tree_);
    content.saved = read_archive(*content.file, [](const TorchArchive& archive) {
      return read_torch_save(archive, DTensors::kPlaced);
    });
    for (const auto& [tensor, place] : content.saved.places) {
      if (place.rank == found.rank - Rank()) continue;
      throw Error(ErrorKind::kBadInput, "is of rank " + std::to_string(place.rank) +
                                            " by what it has, but of rank " +
                                            to_string(found.rank) + " by its name")
          .in_file(found.path.string())
          .for_parameter(content.saved.tensors[tensor].name)
          .hint("give the files the names that they were saved with");
    }
  }

  /// The full shapes, in which all files must agree.
  void take_shapes(std::size_t number) {
    TorchSave& saved = contents_[number].saved;
    for (std::size_t i = 0; i < saved.tensors.size(); ++i) {
      std::string name = saved.tensors[i].name;
      if (!take_state(options_.state_key, name)) continue;
      const auto place = saved.places.find(i);
      const Shape& full =
          place == saved.places.end() ? saved.tensors[i].shape : place->second.full_shape;
      const auto [known, is_new] = shapes_.emplace(name, full);
      if (is_new || known->second == full) continue;
      problems_.try_emplace(name, "its full shape is " + to_string(known->second) +
                                      " by another rank's file, but " + to_string(full) +
                                      " by that of rank " + to_string(out_.files[number].rank) +
                                      ": the files are not of one save");
    }
    for (const RefusedTensor& tensor : saved.refused) {
      std::string name = tensor.name;
      if (take_state(options_.state_key, name)) problems_.try_emplace(name, tensor.reason);
    }
  }

  void describe(std::size_t number) {
    RankContent& content = contents_[number];
    std::vector<TorchTensor> tensors;
    BoxOffsets offsets;
    for (std::size_t i = 0; i < content.saved.tensors.size(); ++i) {
      TorchTensor& tensor = content.saved.tensors[i];
      if (!take_state(options_.state_key, tensor.name) || problems_.contains(tensor.name)) continue;
      const auto place = content.saved.places.find(i);
      offsets.add(tensors.size(), place == content.saved.places.end()
                                      ? Shape(tensor.shape.size(), 0)
                                      : place->second.offsets);
      tensors.push_back(std::move(tensor));
    }
    ByteSourcePtr source;
    auto index = index_of_tensors(std::move(tensors), {}, content.file, source, std::move(offsets));
    out_.files[number].content =
        std::make_shared<const SavedContent>(std::move(index), std::move(source));
  }

  void note_values() {
    std::vector<SavedBeside> beside;
    for (RankContent& content : contents_) {
      keep_state(options_.state_key, content.saved.beside.values);
      beside.push_back(std::move(content.saved.beside));
    }
    out_.beside = joined(std::move(beside));
    for (auto& [name, reason] : problems_) {
      shapes_.erase(name);
      refused_.push_back({name, std::move(reason)});
    }
  }

  const fs::path& directory_;
  const CheckpointOptions& options_;
  const SourceTreePtr& tree_;
  std::vector<RankContent> contents_;
  std::unordered_map<std::string, Shape> shapes_;
  std::map<std::string, std::string> problems_;  ///< by the names of tensors
  std::vector<RefusedTensor> refused_;
  Discovery out_;
};

/// The files by rank; empty if there are none.
/// @throws Error kBadInput if they are of several world sizes.
std::map<std::int64_t, std::string> find_files(const fs::path& directory, const SourceTreePtr& tree,
                                               std::int64_t& world) {
  std::map<std::int64_t, std::string> names;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    const auto name = entry.is_regular ? parse_name(entry.name) : std::nullopt;
    if (!name) continue;
    if (entry.is_link && tree) throw link_refused(directory / entry.name);
    if (names.empty()) world = name->world;
    const bool is_new = names.emplace(name->rank, entry.name).second;
    if (name->world == world && is_new) continue;
    throw Error(ErrorKind::kBadInput, "has files of two saves: '" +
                                          printable(names.begin()->second) + "' and '" +
                                          printable(entry.name) + "'")
        .in_file(directory.string())
        .hint("keep the files of one of them");
  }
  return names;
}

}  // namespace

std::optional<Discovery> discover_fsdp(const fs::path& directory, const CheckpointOptions& options,
                                       const SourceTreePtr& tree) {
  std::int64_t world = 0;
  const auto names = find_files(directory, tree, world);
  if (names.empty()) return std::nullopt;
  if (options.step != kLatestStep) throw no_steps(directory);
  std::vector<Rank> missing;
  for (std::int64_t rank = 0; rank < world && static_cast<std::int64_t>(names.size()) < world;
       ++rank) {
    if (!names.contains(rank)) missing.emplace_back(rank);
    if (missing.size() > names.size() + 16) break;  // the number may be anything
  }
  if (!missing.empty()) {
    throw Error(ErrorKind::kMissing, "has files of " + counted(names.size(), "rank") + " of " +
                                         std::to_string(world) + ": " + rank_words(missing) +
                                         (missing.size() == 1 ? " has" : " have") + " none")
        .in_file(directory.string())
        .hint("bring the missing files, such as model_world_size_" + std::to_string(world) +
              "_rank_" + to_string(missing.front()) + ".pt");
  }
  return FsdpReader(directory, options, tree).read(names);
}

std::optional<std::vector<StepInfo>> find_fsdp_steps(const fs::path& directory,
                                                     const SourceTreePtr& tree) {
  std::int64_t world = 0;
  if (find_files(directory, tree, world).empty()) return std::nullopt;
  return std::vector<StepInfo>();
}

}  // namespace reshardfs
