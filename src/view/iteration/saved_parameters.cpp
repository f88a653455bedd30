// SPDX-License-Identifier: Apache-2.0
#include "view/iteration/saved_parameters.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "reshardfs/error.h"

#include "checkpoint/iteration/iteration_names.h"
#include "format/mindformers/iteration_common.h"
#include "layout/fold.h"
#include "layout/optimizer_axes.h"
#include "layout/slicing.h"

namespace reshardfs {
namespace {

bool is_single(const TargetParameter& parameter) {
  return parameter.treatment == Treatment::kKeep &&
         element_count(parameter.grid->full_shape()) <= 1;
}

/// A set of the same format tells by its files. Elsewhere the names do: states, and the counters
/// and factors that only training needs.
bool is_of_optimizer(const TargetParameter& parameter,
                     const std::vector<std::string>& state_prefixes) {
  const std::string file = parameter.source->holders.front().file->path.filename().string();
  if (const auto name = parse_iteration_file(file)) return name->of_optimizer;
  return is_single(parameter) || !weight_of(parameter.source->name, state_prefixes).empty();
}

/// A set of the same format has scalars that its metadata does not list; one of another format has
/// them as parameters, and common.json takes their values.
bool is_unlisted(const TargetParameter& parameter, const SourceTable& source) {
  const CellGrid* grid = parameter.source->grid.get();
  const bool has_boxes = grid != nullptr && grid->boxes() != nullptr;  // never of the same format
  const bool lists =
      source.states_layouts() && source.strategy() == nullptr && source.mapped_from() == nullptr;
  if (lists && !has_boxes) return parameter.source->layout == nullptr;
  return is_single(parameter) &&
         std::find(kCommonKeys.begin(), kCommonKeys.end(), parameter.name) != kCommonKeys.end();
}

/// What it is sorted by: the original knows these prefixes alone.
std::pair<std::string_view, std::size_t> order_of(std::string_view name) {
  constexpr std::array<std::string_view, 4> kPrefixes{"adam_m.", "adam_v.", "moments.",
                                                      "accu_grads."};
  for (std::size_t i = 0; i < kPrefixes.size(); ++i) {
    if (name.starts_with(kPrefixes.at(i))) return {name.substr(kPrefixes.at(i).size()), i + 1};
  }
  return {name, 0};
}

class CutMaker {
 public:
  explicit CutMaker(const TargetTable& target)
      : target_(target),
        stages_(target.strategy()->stage_count()),
        devices_(target.strategy()->devices_per_stage()) {}

  std::shared_ptr<const SavedCut> cut_of(const TargetParameter& parameter) {
    std::vector<Rank> firsts;
    for (std::int64_t stage = 0; stage < stages_; ++stage) {
      const Rank first(stage * devices_);
      if (target_.has(parameter, first)) firsts.push_back(first);
    }
    if (firsts.empty()) return nullptr;
    if (parameter.treatment == Treatment::kKeep) return kept(parameter, firsts);
    const Layout layout = stated(parameter, firsts.front());
    std::erase_if(firsts, [&](Rank first) {
      return first != firsts.front() && stated(parameter, first) != layout;
    });
    return shared(layout, firsts);
  }

 private:
  /// The original's reader asks rank 0 for what has no layout.
  std::shared_ptr<const SavedCut> kept(const TargetParameter& parameter,
                                       const std::vector<Rank>& firsts) {
    if (firsts.front() == Rank()) return shared(std::nullopt, firsts);
    return shared(
        whole_layout(static_cast<std::size_t>(devices_), parameter.grid->full_shape().size()),
        firsts);
  }

  /// The cut in a stage, as the format states it.
  Layout stated(const TargetParameter& parameter, Rank first) const {
    const Slicing& slicing = *parameter.cuts()[target_.stage_of(first)];
    const Shape& full = slicing.full_shape();
    const Layout layout =
        fold_expanded(*target_.layout(parameter, first), full, /*is_slice=*/false);
    for (std::size_t d = 0; d < full.size(); ++d) {
      const AxisPartition& partition = slicing.partitions()[d];
      const bool even = full[d] % partition.parts() == 0 &&
                        partition == AxisPartition::even(full[d], partition.parts());
      if (even) continue;
      throw Error(ErrorKind::kUnsupported,
                  "dimension " + std::to_string(d) +
                      " is not cut into equal parts, which metadata.json cannot state (" +
                      to_string(layout) + ")");
    }
    return with_optimizer_axes(layout);
  }

  /// @param layout nothing: every rank of the stages has the whole.
  std::shared_ptr<const SavedCut> shared(const std::optional<Layout>& layout,
                                         const std::vector<Rank>& firsts) {
    const Layout stated = layout.value_or(Layout{});
    auto& cut = cuts_[{layout.has_value(), stated.device_matrix, stated.tensor_map, firsts}];
    if (cut) return cut;
    if (layout) {
      cut = std::make_shared<const SavedCut>(*layout, firsts);
      return cut;
    }
    std::vector<Rank> ranks;
    for (const Rank first : firsts) {
      const RankRange stage(first, devices_);
      ranks.insert(ranks.end(), stage.begin(), stage.end());
    }
    cut = std::make_shared<const SavedCut>(SavedCut::whole(std::move(ranks)));
    return cut;
  }

  using Key = std::tuple<bool, std::vector<std::int64_t>, TensorMap, std::vector<Rank>>;
  const TargetTable& target_;
  std::int64_t stages_;
  std::int64_t devices_;
  std::map<Key, std::shared_ptr<const SavedCut>> cuts_;
};

}  // namespace

SavedSet saved_set(const TargetTable& target, const std::vector<std::string>& state_prefixes) {
  SavedSet set;
  for (const TargetParameter& parameter : target.parameters()) {
    if (!is_array(parameter.dtype) || is_unlisted(parameter, target.source())) {
      set.unlisted.push_back(parameter.name);
    } else if (parameter.treatment == Treatment::kRaw) {
      throw Error(ErrorKind::kUnsupported,
                  "--unmatched source copies its slices as they are, and metadata.json cannot "
                  "state where they lie")
          .for_parameter(parameter.name)
          .hint("give strategies that have it, or leave it out with --exclude");
    } else {
      set.members.push_back({&parameter, is_of_optimizer(parameter, state_prefixes)});
    }
  }
  return set;
}

std::vector<SavedParameter> saved_parameters(const TargetTable& target, const SavedSet& set) {
  CutMaker cuts(target);
  std::vector<SavedParameter> saved;
  for (const SavedSet::Member& member : set.members) {
    const TargetParameter& parameter = *member.parameter;
    try {
      auto cut = cuts.cut_of(parameter);
      if (!cut) continue;  // no stage has it
      saved.push_back({parameter.name, parameter.dtype, parameter.grid->full_shape(),
                       std::move(cut), member.of_optimizer});
    } catch (Error& error) {
      throw error.for_parameter(parameter.name);
    }
  }
  std::stable_sort(saved.begin(), saved.end(), [](const auto& a, const auto& b) {
    return std::pair(a.cut->ranks().front(), order_of(a.name)) <
           std::pair(b.cut->ranks().front(), order_of(b.name));
  });
  return saved;
}

}  // namespace reshardfs
