// SPDX-License-Identifier: Apache-2.0
/// The contents of each destination rank's file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/conversion_options.h"
#include "reshardfs/rank.h"
#include "reshardfs/strategy.h"

#include "base/cast.h"
#include "base/process/retry_once.h"
#include "base/share_equal.h"
#include "base/text/glob.h"
#include "plan/source/source_table.h"
#include "plan/target/name_map.h"
#include "plan/target/shown_tensor.h"

namespace reshardfs {

class Slicing;

/// How the destination gets a source parameter.
enum class Treatment : std::uint8_t {
  kReshard,  ///< cut by the destination's layout (or whole, without a destination strategy)
  kKeep,     ///< the same bytes on every destination rank
  kRaw,      ///< the slice of source rank (destination rank modulo source stage devices)
};

/// Whether the copies of a parameter that several source ranks hold are equal.
enum class Copies : std::uint8_t {
  kUncompared,  ///< they should be equal, according to the strategy or because there is none
  kEqual,       ///< all their bytes are equal
  kDifferent,   ///< they differ; the user's options decide which copy is used
};

/// There may be a hundred thousand of these, so they share equal members.
struct TargetParameter {
  const SourceParameter* source = nullptr;
  const std::string& name;  ///< in the destination
  Treatment treatment = Treatment::kReshard;
  DType dtype = DType::kFloat32;  ///< in the destination
  Copies copies = Copies::kUncompared;
  CellGridPtr grid;  ///< kReshard and kKeep
  /// The cut in each destination stage; nullptr if the stage does not have the parameter.
  using Cuts = std::vector<std::shared_ptr<const Slicing>>;
  struct Stages {
    Cuts cuts{};              ///< kReshard
    std::vector<bool> has{};  ///< kKeep, kRaw

    bool operator==(const Stages&) const = default;
  };
  const Stages* stages;  ///< the table's; nullptr: kept or raw in all stages

  const Cuts& cuts() const noexcept { return stages->cuts; }

  /// Whether the elements are Int4, each in an Int8.
  bool holds_int4() const noexcept { return source->dtype == DType::kInt4; }
};

struct TargetOptions {
  Unmatched unmatched = Unmatched::kDrop;
  NameFilter names;  ///< destination names
  NameMap name_map;
  std::vector<std::string> state_prefixes;  ///< see weight_of()
  Casts casts{};                            ///< over destination names
  /// The source's strategy consists of rules, which lay out every parameter. Parameters that the
  /// rules do not cut and the destination does not lay out count as parameters without a layout.
  bool source_has_rules = false;
  /// False if the target's strategy lists no names but lays out the parameters of the source.
  bool target_lists_names = true;
  Replicas replicas = Replicas::kSame;
};

class TargetTable {
 public:
  /// @param strategy nullopt: one rank with every parameter whole.
  /// @throws Error kBadInput if a layout does not fit a parameter (names both layouts and the
  ///         shape), or parameters cannot be placed.
  TargetTable(std::shared_ptr<const SourceTable> source, std::optional<Strategy> strategy,
              const TargetOptions& options);

  std::int64_t rank_count() const noexcept;
  /// The stage of a destination rank, and its device in the stage.
  std::size_t stage_of(Rank rank) const noexcept;
  std::int64_t device_of(Rank rank) const noexcept;
  const SourceTable& source() const noexcept { return *source_; }
  const std::vector<TargetParameter>& parameters() const noexcept { return parameters_; }
  /// How many of them TargetOptions::casts converts.
  std::size_t cast_count() const noexcept { return cast_count_; }
  /// The positions of these parameters in `list`, in the order of their names. O(n log n); only the
  /// first call looks at the names.
  std::vector<std::uint32_t> order_by_name(std::span<const TargetParameter* const> list) const;

  /// Whether a destination rank has the parameter.
  bool has(const TargetParameter& parameter, Rank rank) const;
  /// Whether a destination rank should have it, but no source file has its slice.
  bool lacks(const TargetParameter& parameter, Rank rank) const;
  /// The shape of the rank's slice; the number of bytes if the parameter is not an array.
  Shape slice_shape(const TargetParameter& parameter, Rank rank) const;
  /// The rank's slice, in the source's element type.
  ShownTensor view(const TargetParameter& parameter, Rank rank) const;
  /// Like view(), but all destination ranks read the same files: see Replicas::kOwn.
  ShownTensor shared_view(const TargetParameter& parameter, Rank rank) const;
  /// The source rank whose own values a destination rank gets under Replicas::kOwn.
  Rank own_source_rank(Rank rank) const;
  /// The destination rank's slice as its own source rank holds it; an empty holding if that rank
  /// does not hold exactly this slice.
  Holding own_holding(const TargetParameter& parameter, Rank rank) const;
  /// The layout of a resharded parameter in a destination rank's stage, nullptr if there is none.
  const Layout* layout(const TargetParameter& parameter, Rank rank) const;
  /// Whether each destination rank reads the files of its own source rank: Replicas::kOwn.
  bool has_own_values() const noexcept { return replicas_ == Replicas::kOwn; }
  /// Whether a strategy or a map takes part. Where none does, MindSpore's programs keep Int4; where
  /// they transform from strategy to strategy, they make it Int8.
  bool is_transformed() const noexcept {
    return strategy_.has_value() || source_->states_layouts() || source_->mapped_from() != nullptr;
  }
  /// The destination's strategy; nullopt: one rank with every parameter whole.
  const std::optional<Strategy>& strategy() const noexcept { return strategy_; }
  /// Calls visit(TargetParameter, ShownTensor) for each parameter of a rank, in no particular
  /// order. A list of all views would take much memory.
  template <typename Visit>
  void for_each_tensor(Rank rank, Visit&& visit) const {
    for (const TargetParameter& parameter : parameters_) {
      if (has(parameter, rank)) visit(parameter, view(parameter, rank));
    }
  }

  /// The names, in the target, of parameters that the rank should have and whose files are all
  /// missing.
  std::vector<std::string> lost_on(Rank rank) const;
  /// Source ranks without files whose parameters are unknown: the ranks of pipeline stages without
  /// any file, if no strategy lists parameters.
  const std::vector<Rank>& unknown_ranks() const noexcept { return unknown_ranks_; }

  /// Stops replicas from standing in for each other unless all their bytes have been compared and
  /// are equal.
  /// @param equal parameters whose replicas have been found equal.
  void forget_stand_ins(const std::set<const SourceParameter*>& equal);

  /// Lines for the user: warnings about parameters that were left out, and notes about those that a
  /// rule placed.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  const std::vector<std::string>& notes() const noexcept { return notes_; }

 private:
  struct Verdicts;
  const TargetParameter::Stages* keep_stages(TargetParameter::Stages stages);
  void place(const SourceParameter& parameter, Verdicts& verdicts);
  void place_in_one_strategy(const SourceParameter& parameter, Verdicts& verdicts);
  void place_without_layout(const SourceParameter& parameter, Verdicts& verdicts);
  bool follow_weight(const SourceParameter& parameter, Verdicts& verdicts);
  bool keep_if_equal(const SourceParameter& parameter);
  bool keep_differing(const SourceParameter& parameter);
  void keep(const SourceParameter& parameter, CellGridPtr grid, Copies copies);
  void add(TargetParameter parameter);
  void add_resharded(const SourceParameter& parameter, CellGridPtr grid,
                     const std::string& layout_name);
  void place_raw(const SourceParameter& parameter);
  void place_without_slices(const SourceParameter& parameter);
  const TargetParameter::Stages* stages_with(const std::string& name);
  bool in_stage_of(const TargetParameter& parameter, Rank rank) const;
  Holding raw_holding(const SourceParameter& parameter, Rank rank) const;
  std::shared_ptr<const Slicing> slicing(const Layout* layout, const Shape& full);
  void require_distinct_names() const;
  void report(const Verdicts& verdicts);
  void find_absent(const TargetOptions& options);

  std::shared_ptr<const SourceTable> source_;
  std::optional<Strategy> strategy_;
  Unmatched unmatched_;
  NameMap name_map_;
  std::vector<std::string> state_prefixes_;
  Casts casts_;
  std::size_t cast_count_ = 0;
  bool source_has_rules_;
  bool target_lists_names_;
  Replicas replicas_;
  /// Parameters of one layout and shape share a cut.
  struct KnownSlicing {
    std::optional<Layout> layout;  ///< nullopt: the whole tensor
    std::shared_ptr<const Slicing> slicing;
  };
  std::vector<KnownSlicing> slicings_;
  /// Those that parameters refer to, equal ones once: see share_equal().
  std::vector<std::shared_ptr<const TargetParameter::Stages>> stage_kinds_;
  std::vector<std::shared_ptr<const TargetParameter::Stages>> other_stages_;
  std::vector<TargetParameter> parameters_;
  /// Of each parameter, how many names come before its own.
  mutable RetryOnce sorted_;
  mutable std::vector<std::uint32_t> name_ranks_;
  std::vector<std::string> lost_;  ///< names in the target
  std::vector<Rank> unknown_ranks_;
  std::vector<std::string> warnings_;
  std::vector<std::string> notes_;
};

/// The shapes of one rank's slices, for those who go through many parameters: the next one is
/// nearly always cut as the one before. For one thread.
class SliceShapes {
 public:
  /// @param target must outlive it.
  SliceShapes(const TargetTable& target, Rank rank)
      : target_(target), rank_(rank), stage_(target.stage_of(rank)) {}

  /// As TargetTable::slice_shape(), until the next call.
  const Shape& of(const TargetParameter& parameter) {
    if (parameter.treatment == Treatment::kKeep) return parameter.grid->full_shape();
    const Slicing* const cut =
        parameter.treatment == Treatment::kReshard ? parameter.cuts()[stage_].get() : nullptr;
    if (cut == nullptr || cut != cut_) shape_ = target_.slice_shape(parameter, rank_);
    cut_ = cut;
    return shape_;
  }

 private:
  const TargetTable& target_;
  Rank rank_;
  std::size_t stage_;
  const Slicing* cut_ = nullptr;  ///< of shape_
  Shape shape_;
};

}  // namespace reshardfs
