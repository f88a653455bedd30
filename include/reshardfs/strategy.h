// SPDX-License-Identifier: Apache-2.0
/// The layouts of all parameters of a training job, by pipeline stage.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "reshardfs/export.h"
#include "reshardfs/rank.h"
#include "reshardfs/stage_layouts.h"

namespace reshardfs {

/// An operator's strategy. Resharding does not need it. It is kept so that merging and converting
/// strategy files loses nothing, and because the first operator's stage is the file's stage.
struct OperatorStrategy {
  std::string node_name;  ///< as in MindSpore's graph
  std::int64_t stage = 0;
  /// For each input, the number of parts of each of its dimensions.
  std::vector<std::vector<std::int64_t>> cuts;

  bool operator==(const OperatorStrategy&) const = default;
};

class RESHARDFS_EXPORT Strategy {
 public:
  /// Reads a strategy.
  /// @param path a protobuf file (any name), a JSON file (name ends in .json), or a directory with
  ///        one such file for each pipeline stage.
  /// @param linkless_root if `path` is below this directory, symbolic links below the directory are
  ///        not followed; empty: all links are followed.
  /// @throws Error kBadInput, kMissing or kIo; names the file, and the parameter if there is one.
  static Strategy load(const std::filesystem::path& path,
                       const std::filesystem::path& linkless_root = {});

  /// Reads the files of all stages, as load() does for a directory.
  static Strategy load_stages(const std::vector<std::filesystem::path>& paths);

  /// @param stages layouts of stages `first_stage`, `first_stage + 1`, ... without gaps.
  /// @param devices number of devices of each stage, needed if there are no layouts; 0: as the
  ///        layouts say.
  /// @throws Error kBadInput if a layout is impossible, or layouts differ in their number of
  ///         devices.
  Strategy(std::vector<StageLayouts> stages, std::int64_t first_stage, bool stage_prefixed,
           std::vector<OperatorStrategy> operators = {}, std::int64_t devices = 0);

  std::int64_t stage_count() const noexcept { return static_cast<std::int64_t>(stages_.size()); }
  /// The number of devices of each stage.
  std::int64_t devices_per_stage() const noexcept { return devices_per_stage_; }
  /// stage_count() * devices_per_stage().
  std::int64_t rank_count() const noexcept { return stage_count() * devices_per_stage_; }
  /// The number of the first stage: 0, or s for a strategy that was read from the file of stage s
  /// alone.
  std::int64_t first_stage() const noexcept { return first_stage_; }
  /// Whether the names in the file carry "<stage>-" (a merged strategy).
  bool stage_prefixed() const noexcept { return stage_prefixed_; }

  /// @param index 0 ... stage_count()-1 (not offset by first_stage()).
  const StageLayouts& stage(std::int64_t index) const;
  /// Whether any stage lays out `parameter`.
  bool contains(const std::string& parameter) const;
  /// The indices of the stages that hold `parameter`, ascending.
  std::vector<std::int64_t> stages_of(const std::string& parameter) const;

  /// In the order of the file, or of the files.
  const std::vector<OperatorStrategy>& operators() const noexcept { return operators_; }

 private:
  std::vector<StageLayouts> stages_;
  std::int64_t first_stage_;
  std::int64_t devices_per_stage_ = 0;
  bool stage_prefixed_;
  std::vector<OperatorStrategy> operators_;
};

/// The strategy as the bytes of a MindSpore strategy file. If it has several stages, each name
/// begins with "<stage>-", as MindSpore's merge_pipeline_strategys writes it.
RESHARDFS_EXPORT std::string to_protobuf(const Strategy& strategy);
/// The strategy as JSON. MindSpore's own JSON cannot state several axes for one dimension; they are
/// written as nested lists, which reshardfs can read.
/// @throws Error kUnsupported for a name that is not UTF-8.
RESHARDFS_EXPORT std::string to_json(const Strategy& strategy);

/// The ranks in a group-info file (`restore_group_info_list` in MindSpore), in file order.
/// @throws Error kBadInput or kIo.
RESHARDFS_EXPORT std::vector<Rank> load_group_info(const std::filesystem::path& path);

}  // namespace reshardfs
