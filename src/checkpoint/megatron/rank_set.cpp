// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/rank_set.h"

#include <algorithm>
#include <map>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/rank_list.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/megatron/rank_directory.h"
#include "checkpoint/megatron/rank_file.h"
#include "checkpoint/megatron/rank_model.h"
#include "checkpoint/series/series_names.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/unfinished_names.h"
#include "checkpoint/set_format.h"
#include "checkpoint/source_links.h"
#include "checkpoint/torch/archive_folder.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDistributedOptimizer = "distrib_optim.pt";
constexpr std::string_view kSavedExtension = ".pt";
constexpr std::string_view kModelKey = "model";
constexpr std::string_view kDistributedTable = ".metadata";

/// The directories of ranks, with the numbers in their names.
using RankDirectories = std::map<std::vector<std::int64_t>, std::string>;

/// Empty if the directory is no checkpoint of this format.
RankDirectories find_directories(const fs::path& directory, const SourceTreePtr& tree,
                                 std::vector<fs::path>* links = nullptr) {
  RankDirectories found;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    auto numbers = entry.is_directory ? parse_mp_rank(entry.name) : std::nullopt;
    if (!numbers) continue;
    if (entry.is_link && refuses_links(tree)) throw link_refused(directory / entry.name);
    if (entry.is_link && links != nullptr) links->push_back(directory / entry.name);
    found.emplace(std::move(*numbers), entry.name);
  }
  return found;
}

/// Names the directory in what `work` throws.
template <typename Work>
auto of_directory(const fs::path& directory, Work&& work) {
  try {
    return work();
  } catch (Error& error) {
    throw error.in_file(directory.string());
  }
}

class RankSetReader {
 public:
  RankSetReader(fs::path directory, const SourceTreePtr& tree)
      : directory_(std::move(directory)), tree_(tree) {}

  Discovery read(const RankDirectories& found) {
    for (const auto& [numbers, name] : found) {
      numbers_.push_back(numbers);
      contents_.emplace_back().directory = name;
    }
    optimizers_.resize(contents_.size());
    warnings_.resize(contents_.size());
    parallel_for(
        contents_.size(), [this](std::size_t i) { read_one(i); },
        is_url(directory_) ? kRequestsAtOnce : 0);
    const MegatronSizes sizes = of_directory(directory_, [&] { return sizes_of(args()); });
    sort_by_rank(sizes);
    require_iteration();
    Discovery out;
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      out.files.push_back({Rank(static_cast<std::int64_t>(i)), {}, file_of(i), -1, tree_});
    }
    of_directory(directory_, [&] { join_megatron_ranks(std::move(contents_), sizes, out); });
    note_optimizers(out);
    for (std::vector<std::string>& lines : warnings_) {
      out.warnings.insert(out.warnings.end(), lines.begin(), lines.end());
    }
    return out;
  }

 private:
  fs::path file_of(std::size_t number) const {
    return directory_ / contents_[number].directory / kMegatronRankFile;
  }

  const MegatronArgs& args() const { return contents_.front().saved.args; }

  void read_one(std::size_t number) {
    const fs::path place = directory_ / contents_[number].directory;
    const std::vector<DirectoryEntry> entries = list_directory(place, tree_);
    warnings_[number] = unfinished_files(place, entries, kSavedExtension);
    const DirectoryEntry* file = nullptr;
    for (const DirectoryEntry& entry : entries) {
      if (entry.name == kDistributedOptimizer) optimizers_[number] = 1;
      if (entry.name == kMegatronRankFile && entry.is_regular) file = &entry;
    }
    if (file == nullptr) {
      throw Error(ErrorKind::kMissing,
                  "has no " + std::string(kMegatronRankFile) +
                      (optimizers_[number] != 0
                           ? ", but only the optimizer's " + std::string(kDistributedOptimizer) +
                                 ", which has no weights by name"
                           : ""))
          .in_file(place.string())
          .hint("bring the files of all ranks from one save");
    }
    if (file->is_link && refuses_links(tree_)) throw link_refused(place / file->name);
    contents_[number].file = open_file(place / file->name, tree_);
    contents_[number].saved = read_archive(*contents_[number].file, read_megatron_rank);
  }

  /// Puts the contents into the order of saving_ranks(), and requires each of them.
  void sort_by_rank(const MegatronSizes& sizes) {
    std::map<MegatronRank, std::size_t> by_rank;
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      const auto rank = megatron_rank(numbers_[i], sizes);
      if (!rank) {
        throw Error(ErrorKind::kBadInput,
                    "its name " + rank.origin() + ", which the arguments state")
            .in_file((directory_ / contents_[i].directory).string())
            .hint("keep the directories of one save, with the names that they were saved with");
      }
      by_rank.emplace(*rank, i);
    }
    std::vector<MegatronRankContent> sorted;
    std::vector<char> optimizers;
    std::vector<std::string> missing;
    const std::vector<MegatronRank> expected = saving_ranks(sizes);
    for (const MegatronRank& rank : expected) {
      const auto found = by_rank.find(rank);
      if (found == by_rank.end()) {
        missing.push_back(mp_rank_name(rank, sizes));
        if (missing.size() > contents_.size() + 16) break;  // the sizes may be anything
        continue;
      }
      sorted.push_back(std::move(contents_[found->second]));
      optimizers.push_back(optimizers_[found->second]);
    }
    if (!missing.empty()) {
      throw Error(ErrorKind::kMissing, "has " + std::to_string(sorted.size()) + " of " +
                                           counted(expected.size(), "rank") +
                                           ": there is no directory " + name_list(missing))
          .in_file(directory_.string())
          .hint("bring the files of all ranks from one save");
    }
    contents_ = std::move(sorted);
    optimizers_ = std::move(optimizers);
  }

  void require_iteration() const {
    const auto named = parse_iter_directory(directory_name(directory_));
    const auto& saved = contents_.front().saved.iteration;
    if (!named || !saved || *named == std::to_string(*saved)) return;
    throw Error(ErrorKind::kBadInput, "is of iteration " + std::to_string(*saved) +
                                          " by its content, but of iteration " + *named +
                                          " by the name of its directory")
        .in_file(file_of(0).string())
        .hint("give the directory the name that it was saved with");
  }

  void note_optimizers(Discovery& out) const {
    const auto count =
        static_cast<std::size_t>(std::count(optimizers_.begin(), optimizers_.end(), 1));
    if (count == 0) return;
    out.beside.values.push_back(
        {std::string(kDistributedOptimizer), "the optimizer's states of " + counted(count, "rank") +
                                                 ", without parameters' names: not read"});
    out.notes.push_back("Megatron-LM converts what is in " + std::string(kDistributedOptimizer) +
                        " with --ckpt-convert-format torch_dist --ckpt-convert-save DIRECTORY");
  }

  fs::path directory_;
  const SourceTreePtr& tree_;
  std::vector<std::vector<std::int64_t>> numbers_;  ///< in the names of the directories
  std::vector<MegatronRankContent> contents_;
  /// Whether there is a distrib_optim.pt. Not vector<bool>: its neighbours share a byte, and
  /// threads write them.
  std::vector<char> optimizers_;
  std::vector<std::vector<std::string>> warnings_;
};

/// A rank's own directory has a part of the model, which may look like a whole one.
void refuse_directory_of_rank(const fs::path& directory, const SourceTreePtr& tree) {
  if (!parse_mp_rank(directory_name(directory)) ||
      path_kind(directory / kMegatronRankFile, tree) != PathKind::kOther) {
    return;
  }
  throw Error(ErrorKind::kUsage,
              "is the directory of one rank of Megatron-LM, with its part of the model")
      .in_file(directory.string())
      .hint("name the directory above, that of the iteration, as the source");
}

void require_model_key(const fs::path& directory, const CheckpointOptions& options) {
  if (options.state_key.empty() || options.state_key == kModelKey) return;
  throw Error(ErrorKind::kUsage,
              "is a checkpoint of Megatron-LM, of which only the key 'model' is "
              "read")
      .in_file(directory.string())
      .hint("leave " + options.state_key_option + " out");
}

}  // namespace

std::optional<Discovery> discover_megatron_ranks(const fs::path& directory,
                                                 const CheckpointOptions& options,
                                                 const SourceTreePtr& tree) {
  if (const RankDirectories ranks = find_directories(directory, tree); !ranks.empty()) {
    const std::string step = parse_iter_directory(directory_name(directory)).value_or("");
    require_step(directory, step, options.step);
    require_model_key(directory, options);
    Discovery out = RankSetReader(directory, tree).read(ranks);
    out.step = step;
    if (!step.empty()) out.steps = {step};
    return out;
  }
  refuse_directory_of_rank(directory, tree);
  const auto found = find_iters(directory, tree, options.step == kLatestStep);
  if (!found) return std::nullopt;
  const ChosenStep chosen = choose_step(*found, options.step);
  std::vector<fs::path> links = found->links;
  const RankDirectories ranks = find_directories(chosen.directory, tree, &links);
  if (ranks.empty()) return std::nullopt;
  require_model_key(directory, options);
  Discovery out = RankSetReader(chosen.directory, tree).read(ranks);
  out.step = chosen.step;
  if (auto note = links_outside(directory, links)) out.notes.push_back(std::move(*note));
  note_tracker(*found, out);
  note_other_steps(*found, options.step, out);
  return out;
}

std::optional<std::vector<StepInfo>> find_megatron_rank_steps(const fs::path& directory,
                                                              const SourceTreePtr& tree) {
  if (!find_directories(directory, tree).empty()) {
    const auto step = parse_iter_directory(directory_name(directory));
    if (!step) return std::vector<StepInfo>();
    return std::vector<StepInfo>{{*step, {Rank()}, true, {directory}}};
  }
  const auto found = find_iters(directory, tree, /*needs_tracker=*/false);
  if (!found) return std::nullopt;
  bool has_ranks = found->release && !find_directories(*found->release, tree).empty();
  std::vector<StepInfo> steps;
  for (const auto& [step, path] : found->directories) {
    const bool of_ranks = !find_directories(path, tree).empty();
    has_ranks = has_ranks || of_ranks;
    // A training may change the format.
    const bool has_model =
        of_ranks || path_kind(path / kDistributedTable, tree) == PathKind::kOther;
    const bool is_finished = found->tracked && found->is_finished(step);
    steps.push_back({step, {Rank()}, has_model && is_finished, {path}});
  }
  return has_ranks ? std::optional(std::move(steps)) : std::nullopt;
}

}  // namespace reshardfs
