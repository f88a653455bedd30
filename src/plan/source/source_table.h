// SPDX-License-Identifier: Apache-2.0
/// All parameters of a source checkpoint, with the layouts from its catalogue.
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

/// There may be a hundred thousand of these, so they share equal members.
struct SourceParameter {
  SourceParameter(const std::string& kept_name, DType type) : name(kept_name), dtype(type) {}
  explicit SourceParameter(const TensorEntry& entry) : SourceParameter(entry.name, entry.dtype) {}

  const std::string& name;  ///< owned by an entry, or by the table if a map made it
  /// The type of the entries; differs from the grid's if a map casts.
  DType dtype;
  /// Files that hold it, ascending by rank; never empty. With a map: the files of the first tensor
  /// that it is made of.
  Holders holders;
  /// Its layout in the table's catalogue. nullptr if the catalogue does not know it, or lists
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
  std::deque<RankFile> computed;  ///< of tensors whose values the map changes
  /// All of them have grids.
  std::vector<SourceParameter> parameters;
  std::shared_ptr<const Catalogue> catalogue;
};

/// The parameters of a table under other names: see Renames.
struct RenamedParameters {
  std::shared_ptr<const SourceTable> of;
  std::deque<std::string> names{};
  std::vector<std::size_t> positions{};  ///< in `of`, of each name
  std::shared_ptr<const Catalogue> catalogue{};
  const Strategy* strategy = nullptr;  ///< the catalogue's
};

class SourceTable {
 public:
  /// Reads no tensor data, and so does not check that replicas are equal.
  /// @param strategy nullopt: the checkpoint's own catalogue is used. If it has none, every rank
  ///        holds whole parameters, except that each rank holds a slice along dimension 0 of the
  ///        parameters that `join` selects.
  /// @param takes selects parameters. Others need not fit the layouts or each other's shapes, and
  ///        then have no grid.
  /// @throws Error kBadInput if ranks, shapes or element types do not fit each other or the
  ///         layouts; names the parameter, its layout and its shape. kUsage if layouts are stated
  ///         twice. kMissing if no file has a required parameter, or a parameter is smaller than
  ///         the metadata beside the files states.
  SourceTable(std::shared_ptr<const CheckpointSet> checkpoint, std::optional<Strategy> strategy,
              NameGlobs join = {}, const NameTaker& takes = {});
  explicit SourceTable(MappedParameters mapped);
  explicit SourceTable(RenamedParameters renamed);

  const std::vector<SourceParameter>& parameters() const noexcept { return parameters_; }
  /// nullptr if there is no parameter of this name. O(log n), except for the first call, which
  /// sorts the names.
  const SourceParameter* find(std::string_view name) const;
  const CheckpointSet& checkpoint() const noexcept { return *checkpoint_; }
  const std::shared_ptr<const CheckpointSet>& checkpoint_ptr() const noexcept {
    return checkpoint_;
  }
  /// The table from which a model map made this one; nullptr: no map did.
  const SourceTable* mapped_from() const noexcept { return mapped_from_.get(); }
  /// Whether parameters have the names that they have in the files.
  bool has_stored_names() const noexcept { return mapped_names_.empty(); }
  /// The table of the parameters in the files: this one, unless a map made it.
  const SourceTable& unmapped() const noexcept {
    return mapped_from_ ? mapped_from_->unmapped() : *this;
  }

  /// Whether a strategy or the checkpoint itself states how parameters are cut. If not, files have
  /// whole parameters.
  bool states_layouts() const noexcept { return catalogue_->states_layouts(); }
  /// The strategy from which the table was made, or nullptr.
  const Strategy* strategy() const noexcept { return strategy_; }

  const SourceRanks& ranks() const noexcept { return catalogue_->ranks(); }
  const Catalogue& catalogue() const noexcept { return *catalogue_; }
  /// Ranks of the source that have no file, ascending.
  std::vector<Rank> missing_ranks() const { return checkpoint_->missing_ranks(ranks().all()); }

  /// Whether a parameter's bytes are the same on all ranks of each stage that holds it. The first
  /// call for a parameter reads all of them.
  bool equal_on_all_ranks(const SourceParameter& parameter) const;
  /// The files that equal_on_all_ranks() compares with the first one: those of the first stage that
  /// holds the parameter.
  Holders compared_holders(const SourceParameter& parameter) const;

  /// Lays out `parameter` like `like`, if in every file both have slices of the same shape.
  /// @return the grid, or nullptr; always nullptr for parameters in boxes.
  CellGridPtr grid_like(const SourceParameter& parameter, const SourceParameter& like) const;

 private:
  /// Each in a place of its own would take twice the memory.
  using GridPool = std::deque<CellGrid>;

  void collect_holders();
  void require_none_refused(const NameTaker& takes) const;
  void require_names(const NameTaker& takes) const;
  void require_extents(const NameTaker& takes) const;
  void lay_out(SourceParameter& parameter, const std::shared_ptr<GridPool>& pool);
  void require_uncut(const SourceParameter& parameter) const;
  bool compare_ranks(const SourceParameter& parameter) const;
  /// The parameter's holders in the lowest stage that lays it out and has it.
  Holders holders_in_stage(const SourceParameter& parameter, std::int64_t stage) const;
  /// @param pool where the grid is to be; nullptr: in a place of its own.
  CellGridPtr make_grid(const SourceParameter& parameter, const SlicePlacement& placement,
                        const std::shared_ptr<GridPool>& pool) const;
  CellGridPtr make_grid(const SourceParameter& parameter, const BoxPlacement& placement);

  std::shared_ptr<const CheckpointSet> checkpoint_;
  std::shared_ptr<const Catalogue> catalogue_;
  const Strategy* strategy_ = nullptr;  ///< the catalogue's
  std::shared_ptr<const SourceTable> mapped_from_;
  std::shared_ptr<const SourceTable> renamed_from_;  ///< whose grids and layouts are used
  std::deque<std::string> mapped_names_;
  std::deque<RankFile> computed_;
  std::vector<SourceParameter> parameters_;
  /// Positions in parameters_, sorted by name.
  mutable RetryOnce sorted_;
  mutable std::vector<std::uint32_t> by_name_;
  mutable Arrangements arrangements_;
  BoxGrids box_grids_;
  mutable std::mutex verdicts_mutex_;
  mutable std::unordered_map<std::size_t, bool> verdicts_;  ///< results of equal_on_all_ranks()
};

}  // namespace reshardfs
