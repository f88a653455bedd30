// SPDX-License-Identifier: Apache-2.0
#include "conversion/sized_source.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/known.h"
#include "base/sha256.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "conversion/installed_maps.h"
#include "modelmap/family_cuts.h"
#include "strategy/derive/sized_strategy.h"

namespace reshardfs {
namespace {

/// A slice's dimension that is cut; nothing: the slice is the whole.
using CutDimension = std::optional<std::size_t>;

[[noreturn]] void refuse_sizes(const DerivedSizes& sizes, const std::string& why) {
  throw Error(ErrorKind::kUsage, "--src-strategy '" + printable(sizes.text) + "': " + why);
}

/// Ranks of a set, as sizes divide them.
ParallelSizes sizes_of_ranks(const DerivedSizes& sizes, std::int64_t ranks) {
  if (sizes.expert || (sizes.optimizer && *sizes.optimizer != 0)) {
    throw Error(ErrorKind::kUnsupported, "--src-strategy '" + printable(sizes.text) +
                                             "': shapes do not prove cuts of experts or optimizers")
        .hint("give the strategy file that the training wrote, or rules (reshardfs-strategy(5))");
  }
  if (!sizes.tensor) refuse_sizes(sizes, "tp is not named");
  ParallelSizes devices;
  devices.tensor = *sizes.tensor;
  if (sizes.pipeline) devices.stages = *sizes.pipeline;
  const std::int64_t named = devices.tensor * devices.stages;
  if (ranks % named != 0 || (sizes.data && *sizes.data * named != ranks)) {
    refuse_sizes(sizes, "the checkpoint has " + counted(static_cast<std::size_t>(ranks), "rank"));
  }
  devices.data = ranks / named;
  return devices;
}

/// Whether a slice is a full tensor, or one of `parts` along `dimension`.
Known<CutDimension> cut_of(const Shape& slice, const FamilyCut& cut, std::int64_t parts) {
  using Cut = Known<CutDimension>;
  if (!cut.whole) return Cut::unknown("no config.json has the numbers of its full shape");
  const Shape& full = *cut.whole;
  if (slice == full) return Cut::derived(std::nullopt, "its shape");
  const auto no_fit = [&] {
    return Cut::unknown("slices of " + to_string(slice) + " are not " + std::to_string(parts) +
                        " parts of " + to_string(full));
  };
  if (!cut.dimension || cut.by_experts) return no_fit();
  const std::size_t d = *cut.dimension;
  Shape others = slice;
  others[d] = full[d];
  if (others != full) return no_fit();
  // A vocabulary may have been padded, but not so far that a rank has nothing else: then there were
  // fewer parts.
  const bool is_padded = cut.unit == "vocab" && slice[d] * (parts - 1) < full[d] &&
                         slice[d] < full[d] && slice[d] * parts > full[d];
  if (slice[d] * parts != full[d] && !is_padded) return no_fit();
  return Cut::derived(d, "its shape");
}

std::int64_t rank_count(const CheckpointSet& set) {
  std::int64_t last = 0;
  for (const RankFile& file : set.files()) last = std::max(last, file.rank.number());
  return last + 1;
}

class SizedSource {
 public:
  SizedSource(const DerivedSizes& sizes, const CheckpointSet& set, const ModelMaps& maps)
      : sizes_(sizes),
        set_(set),
        devices_(sizes_of_ranks(sizes, rank_count(set))),
        families_(installed_maps()),
        config_(maps.config_of_model()),
        cuts_(families_, config_),
        seen_(static_cast<std::size_t>(devices_.stages)) {}

  Strategy strategy() && {
    const FileIndex* before = nullptr;
    std::int64_t stage_before = -1;
    for (const RankFile& file : set_.files()) {
      const std::int64_t stage = file.rank.number() / (devices_.tensor * devices_.data);
      // The files of a stage share an index.
      if (file.index.get() == before && stage == stage_before) continue;
      before = file.index.get();
      stage_before = stage;
      for (const TensorEntry& entry : file.index->entries()) add(entry, stage);
    }
    if (!unproven_.empty()) refuse();
    require_each_stage();
    return sized_strategy(devices_, parameters_);
  }

 private:
  void add(const TensorEntry& entry, std::int64_t stage) {
    if (entry.dtype == DType::kString) return;
    if (!seen_[static_cast<std::size_t>(stage)].insert(entry.name).second) return;
    const Known<FamilyCut> cut = cuts_.find(entry.name, entry.shape, nullptr);
    const Known<CutDimension> dimension =
        cut ? cut_of_slice(entry.shape, *cut) : Known<CutDimension>::unknown(cut.origin());
    if (!dimension) {
      std::vector<std::string>& names = unproven_[dimension.origin()];
      if (unproven_names_.insert(entry.name).second) names.push_back(entry.name);
      return;
    }
    require_one_stage(entry, stage, *cut);
    parameters_.push_back({entry.name, entry.shape.size(), *dimension, {}, {stage}});
  }

  /// A stage that was made of ranks of another one, because the files of some ranks are missing or
  /// pp is another number, repeats its names.
  void require_one_stage(const TensorEntry& entry, std::int64_t stage, const FamilyCut& cut) {
    const auto [first, is_new] = first_.try_emplace(entry.name, First{stage, entry.shape});
    if (is_new || is_single(entry.shape)) return;
    const auto ties = config_.find("tie_word_embeddings");
    const bool is_tied = cut.unit == "vocab" && ties && *ties != 0;
    if (is_tied && first->second.shape == entry.shape) return;
    throw Error(
        ErrorKind::kUsage,
        "--src-strategy '" + printable(sizes_.text) + "': is in the pipeline stages " +
            std::to_string(first->second.stage) + " and " + std::to_string(stage) +
            (is_tied ? " in two shapes" : ", and config.json states no tied embedding of it"))
        .in_file(set_.root().string())
        .for_parameter(entry.name)
        .needs(Need::kSourceStrategy)
        .hint(
            "bring the files of all ranks, which may be more than there are here, or give the "
            "strategy file that the training wrote");
  }

  /// The ranks that are there tell nothing of a stage of which none is.
  void require_each_stage() const {
    for (std::size_t stage = 0; stage < seen_.size(); ++stage) {
      if (!seen_[stage].empty()) continue;
      const std::int64_t ranks = devices_.tensor * devices_.data;
      throw Error(ErrorKind::kMissing,
                  "--src-strategy '" + printable(sizes_.text) + "': no file of pipeline stage " +
                      std::to_string(stage) + " (ranks " +
                      std::to_string(static_cast<std::int64_t>(stage) * ranks) + " to " +
                      std::to_string((static_cast<std::int64_t>(stage) + 1) * ranks - 1) +
                      ") is there, and no other rank has its parameters")
          .in_file(set_.root().string())
          .hint("bring the missing files");
    }
  }

  static bool is_single(const Shape& shape) {
    return std::all_of(shape.begin(), shape.end(), [](auto n) { return n == 1; });
  }

  /// One element, and what is not cut by anything, is whole.
  Known<CutDimension> cut_of_slice(const Shape& slice, const FamilyCut& cut) const {
    if (devices_.tensor == 1) return Known<CutDimension>::derived(std::nullopt, "tp=1");
    if (is_single(slice)) return Known<CutDimension>::derived(std::nullopt, "its only element");
    return cut_of(slice, cut, devices_.tensor);
  }

  [[noreturn]] void refuse() const {
    throw Error(ErrorKind::kUsage, "--src-strategy '" + printable(sizes_.text) +
                                       "' is not proven: " + words_of(unproven_))
        .needs(Need::kSourceStrategy)
        .hint("give the strategy file that the training wrote, or run: " +
              command_line("strategy guess", {set_.root().string()}, {"-O", "rules.toml"}));
  }

  const DerivedSizes& sizes_;
  const CheckpointSet& set_;
  const ParallelSizes devices_;
  const std::vector<modelmap::ModelMap> families_;
  const modelmap::ModelConfig config_;
  const FamilyCuts cuts_;
  std::vector<std::set<std::string>> seen_;  ///< names in each stage
  struct First {
    std::int64_t stage = 0;
    Shape shape{};
  };
  std::map<std::string, First> first_{};  ///< where each name was first
  std::vector<SizedParameter> parameters_{};
  UnknownCuts unproven_{};
  std::set<std::string> unproven_names_{};
};

}  // namespace

Strategy sized_source(const DerivedSizes& sizes, const CheckpointSet& set, const ModelMaps& maps) {
  return SizedSource(sizes, set, maps).strategy();
}

std::string sum_of(const Strategy& strategy) {
  Sha256 sum;
  const auto add = [&](const std::string& text) { sum.update(std::as_bytes(std::span(text))); };
  for (std::int64_t s = 0; s < strategy.stage_count(); ++s) {
    for (const auto& [name, layout] : strategy.stage(s)) {
      add(name + ": " + to_string(layout) + "\n");
    }
    add("\n");
  }
  return sum.finish();
}

}  // namespace reshardfs
