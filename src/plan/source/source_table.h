// SPDX-License-Identifier: Apache-2.0
/// All parameters of a source checkpoint, as its catalogue lays them out.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/rank.h"
#include "reshardfs/strategy.h"

#include "base/process/retry_once.h"
#include "base/text/glob.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/checkpoint_set.h"
#include "plan/replicas/arrangements.h"
#include "plan/source/box_grids.h"
#include "plan/source/cell_grid.h"

namespace reshardfs {

/// There may be a hundred thousand of these: what many have alike they share.
struct SourceParameter {
  SourceParameter(const std::string& kept_name, DType type) : name(kept_name), dtype(type) {}
  explicit SourceParameter(const TensorEntry& entry) : SourceParameter(entry.name, entry.dtype) {}

  const std::string& name;  ///< that of an entry; of a table through a map, the table's own
  /// That of the entries; through a map that casts, another one than the grid's.
  DType dtype;
  /// Files that hold it, ascending by rank; never empty. Through a map: those that hold the first
  /// tensor that it is made of.
  Holders holders;
  /// How it is laid out, by the table's catalogue. nullptr if that does not know it, or lists
  /// boxes.
  const Layout* layout = nullptr;
  /// nullptr if the catalogue does not know it.
  CellGridPtr grid;
};

class SourceTable;

/// The parameters of a table as a model map shows them: see mapped_source.h.
struct MappedParameters {
  std::shared_ptr<const SourceTable> from;
  std::deque<std::string> names;
  /// All of them have grids.
  std::vector<SourceParameter> parameters;
  std::shared_ptr<const Catalogue> catalogue;
};

class SourceTable {
 public:
  /// Reads no tensor data: whether what should be equal is, others find out.
  /// @param strategy nothing: the checkpoint's own catalogue counts; if it has none, every rank
  ///        holds whole parameters, but for those that `join` takes: of them each rank holds a
  ///        slice along dimension 0.
  /// @param takes those that it does not take may fit neither the layouts nor each other's shapes,
  ///        and then have no grid.
  /// @throws Error kBadInput if ranks, shapes or element types do not fit each other or the
  ///         layouts; names the parameter, its layout and its shape. kUsage where layouts are
  ///         stated twice. kMissing if a parameter that must be there is in no file, or is smaller
  ///         than what lies beside the files states.
  SourceTable(std::shared_ptr<const CheckpointSet> checkpoint, std::optional<Strategy> strategy,
              NameGlobs join = {}, const NameTaker& takes = {});
  explicit SourceTable(MappedParameters mapped);

  const std::vector<SourceParameter>& parameters() const noexcept { return parameters_; }
  /// nullptr if there is none of that name. O(log n) but for the first call, which sorts the names.
  const SourceParameter* find(std::string_view name) const;
  const CheckpointSet& checkpoint() const noexcept { return *checkpoint_; }
  const std::shared_ptr<const CheckpointSet>& checkpoint_ptr() const noexcept {
    return checkpoint_;
  }
  /// The table that a model map has made this one of; nullptr: none has.
  const SourceTable* mapped_from() const noexcept { return mapped_from_.get(); }
  /// The table of what the files have: this one, but for maps.
  const SourceTable& unmapped() const noexcept {
    return mapped_from_ ? mapped_from_->unmapped() : *this;
  }

  /// Whether it is stated how parameters are cut, by a strategy or by the checkpoint itself. If
  /// not, files have whole ones.
  bool states_layouts() const noexcept { return catalogue_->states_layouts(); }
  /// The strategy that it was made with, or nullptr.
  const Strategy* strategy() const noexcept { return strategy_; }

  const SourceRanks& ranks() const noexcept { return catalogue_->ranks(); }
  const Catalogue& catalogue() const noexcept { return *catalogue_; }
  /// Ranks of a whole source that have no file, ascending.
  std::vector<Rank> missing_ranks() const { return checkpoint_->missing_ranks(ranks().all()); }

  /// Whether a parameter's bytes are the same on all ranks of each stage that holds it. Reads them
  /// all the first time that it is asked.
  bool equal_on_all_ranks(const SourceParameter& parameter) const;
  /// The files that it compares with the first: those of the first stage that holds the parameter.
  Holders compared_holders(const SourceParameter& parameter) const;

  /// Lays `parameter` out like `like`, if every file holds slices of the same shape of both.
  /// @return the grid, or nullptr; of what has boxes, nothing is like another.
  CellGridPtr grid_like(const SourceParameter& parameter, const SourceParameter& like) const;

 private:
  void collect_holders();
  void require_none_refused(const NameTaker& takes) const;
  void require_names(const NameTaker& takes) const;
  void require_extents(const NameTaker& takes) const;
  void lay_out(SourceParameter& parameter);
  void require_uncut(const SourceParameter& parameter) const;
  bool compare_ranks(const SourceParameter& parameter) const;
  /// Those of the parameter's holders that count: the lowest stage that lays it out and has it.
  Holders holders_in_stage(const SourceParameter& parameter, std::int64_t stage) const;
  CellGridPtr make_grid(const SourceParameter& parameter, const SlicePlacement& placement) const;
  CellGridPtr make_grid(const SourceParameter& parameter, const BoxPlacement& placement);

  std::shared_ptr<const CheckpointSet> checkpoint_;
  std::shared_ptr<const Catalogue> catalogue_;
  const Strategy* strategy_ = nullptr;  ///< the catalogue's
  std::shared_ptr<const SourceTable> mapped_from_;
  std::deque<std::string> mapped_names_;
  std::vector<SourceParameter> parameters_;
  /// Positions in parameters_, sorted by name.
  mutable RetryOnce sorted_;
  mutable std::vector<std::uint32_t> by_name_;
  mutable Arrangements arrangements_;
  BoxGrids box_grids_;
  mutable std::mutex verdicts_mutex_;
  mutable std::unordered_map<std::size_t, bool> verdicts_;  ///< of equal_on_all_ranks()
};

}  // namespace reshardfs
