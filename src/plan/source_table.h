// SPDX-License-Identifier: Apache-2.0
/// All parameters of a source checkpoint under its strategy.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/strategy.h"

#include "base/glob.h"
#include "base/retry_once.h"
#include "checkpoint/checkpoint_set.h"
#include "plan/holders.h"
#include "plan/shard_grid.h"

namespace reshardfs {

/// There may be a hundred thousand of these: what many have alike they share.
struct SourceParameter {
  explicit SourceParameter(const TensorEntry& entry) : name(entry.name), dtype(entry.dtype) {}

  const std::string& name;  ///< that of an entry
  DType dtype;
  /// Files that hold it, ascending by rank; never empty.
  Holders holders;
  /// How it is laid out: by the strategy, or (without one) whole on every rank. nullptr if there
  /// is a strategy that does not know it. The table owns it.
  const Layout* layout = nullptr;
  /// Set if layout is.
  ShardGridPtr grid;
};

class SourceTable {
 public:
  /// @param strategy nothing: every rank holds whole parameters, but for those that `join` takes:
  ///        of them each rank holds a slice along dimension 0.
  /// @param join ignored if there is a strategy.
  /// @throws Error kBadInput if ranks, shapes or element types do not fit each other or the
  ///         strategy; names the parameter, its layout and its shape.
  SourceTable(std::shared_ptr<const CheckpointSet> checkpoint, std::optional<Strategy> strategy,
              NameGlobs join = {});

  const std::vector<SourceParameter>& parameters() const noexcept { return parameters_; }
  /// nullptr if there is none of that name. O(log n) but for the first call, which sorts the names.
  const SourceParameter* find(std::string_view name) const;
  const CheckpointSet& checkpoint() const noexcept { return *checkpoint_; }
  const std::shared_ptr<const CheckpointSet>& checkpoint_ptr() const noexcept {
    return checkpoint_;
  }
  const std::optional<Strategy>& strategy() const noexcept { return strategy_; }

  /// Devices of a source stage (1 without a strategy).
  std::int64_t stage_devices() const noexcept;
  std::int64_t stage_count() const noexcept;
  /// The global rank of stage 0's first device.
  std::int64_t base_rank() const noexcept { return base_rank_; }

  /// Whether a parameter's bytes are the same on all ranks of each stage that holds it. Reads them
  /// all the first time that it is asked.
  bool equal_on_all_ranks(const SourceParameter& parameter) const;
  /// The files that it compares with the first: those of the first stage that holds the parameter.
  Holders compared_holders(const SourceParameter& parameter) const;

  /// Lays `parameter` out like `like`, if every file holds slices of the same shape of both.
  /// @return the grid, or nullptr.
  ShardGridPtr grid_like(const SourceParameter& parameter, const SourceParameter& like) const;

 private:
  struct Arrangement;

  void find_base_rank();
  void collect_holders();
  void lay_out(SourceParameter& parameter);
  void require_uncut(const SourceParameter& parameter) const;
  bool compare_ranks(const SourceParameter& parameter) const;
  /// Those of the parameter's holders that count: the lowest stage that lays it out and has it.
  Holders holders_in_stage(const SourceParameter& parameter, std::int64_t stage) const;
  ShardGridPtr make_stage_grid(const SourceParameter& parameter, const Layout& layout,
                               std::int64_t stage) const;
  ShardGridPtr make_grid(const SourceParameter& parameter, const Layout& layout_as_written,
                         std::int64_t first_rank, const Holders& holders) const;
  std::shared_ptr<const Arrangement> arrangement(const SourceParameter& parameter,
                                                 const Layout& layout_as_written,
                                                 std::int64_t first_rank,
                                                 const Holders& holders) const;
  Layout joined_layout(const SourceParameter& parameter) const;
  const Layout& whole_layout(std::size_t dimensions);
  ShardGridPtr make_replicated_grid(const SourceParameter& parameter, const Layout& layout) const;

  std::shared_ptr<const CheckpointSet> checkpoint_;
  std::optional<Strategy> strategy_;
  NameGlobs join_;
  std::int64_t base_rank_ = 0;
  std::vector<SourceParameter> parameters_;
  /// Positions in parameters_, sorted by name.
  mutable RetryOnce sorted_;
  mutable std::vector<std::uint32_t> by_name_;
  /// Layouts that no strategy has: of whole parameters by the number of their dimensions, and of
  /// joined ones.
  std::map<std::size_t, Layout> whole_layouts_;
  std::list<Layout> joined_layouts_;
  /// Of parameters that were laid out before: nearly all are laid out like one of a few.
  mutable std::mutex arrangements_mutex_;
  mutable std::vector<std::shared_ptr<const Arrangement>> arrangements_;
  mutable std::mutex verdicts_mutex_;
  mutable std::unordered_map<std::size_t, bool> verdicts_;  ///< of equal_on_all_ranks()
};

}  // namespace reshardfs
