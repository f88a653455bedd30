// SPDX-License-Identifier: Apache-2.0
#include "view/dcp/box_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "base/content_size.h"
#include "conversion/completeness.h"
#include "layout/slicing.h"
#include "view/dcp/row_blocks.h"

namespace reshardfs {
namespace {

Box whole_box(const Shape& shape) {
  return {Shape(shape.size(), 0), shape};
}

bool is_without_elements(const Shape& shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

/// The boxes of which one cell of a cut consists: one, but for dimensions whose parts have several
/// intervals.
std::vector<Box> boxes_of_cell(const Slicing& slicing, const std::vector<std::int64_t>& parts) {
  std::vector<Box> boxes{{}};
  const auto& partitions = slicing.partitions();
  for (std::size_t d = 0; d < partitions.size(); ++d) {
    std::vector<Box> longer;
    for (const AxisInterval& interval : partitions[d].intervals_of(parts[d])) {
      for (const Box& box : boxes) {
        longer.push_back(box);
        longer.back().offsets.push_back(interval.begin);
        longer.back().sizes.push_back(interval.end - interval.begin);
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

/// How a cut lies on the ranks: each box, and the ranks that have it.
struct RankCut {
  std::shared_ptr<const std::vector<Box>> boxes;
  std::vector<std::vector<std::size_t>> holders;  ///< ranks, of each box; ascending
};

RankCut cut_of(const TargetTable& target, const TargetParameter::Cuts& by_stage) {
  const std::int64_t devices = target.strategy() ? target.strategy()->devices_per_stage() : 1;
  const auto first = std::find_if(by_stage.begin(), by_stage.end(),
                                  [](const auto& slicing) { return slicing != nullptr; });
  if (first == by_stage.end()) return {std::make_shared<const std::vector<Box>>(), {}};
  const Slicing& slicing = **first;
  std::vector<Box> boxes;
  std::vector<std::vector<std::size_t>> holders;
  std::map<std::int64_t, std::pair<std::size_t, std::size_t>> of_cell;  ///< first box, and behind
  for (std::int64_t device = 0; device < devices; ++device) {
    const auto [cell, is_new] = of_cell.try_emplace(slicing.cell_of(device));
    if (is_new) {
      cell->second.first = boxes.size();
      for (Box& box : boxes_of_cell(slicing, slicing.parts_of(device))) {
        boxes.push_back(std::move(box));
      }
      cell->second.second = boxes.size();
      holders.resize(boxes.size());
    }
    for (std::size_t box = cell->second.first; box < cell->second.second; ++box) {
      holders[box].push_back(static_cast<std::size_t>(device));
    }
  }
  if (boxes.empty()) {  // a tensor without elements: nobody has any
    boxes.push_back(whole_box(slicing.full_shape()));
    holders.push_back({0});
  }
  // Stages that cut it alike have the same boxes; what another cut has is not stored again.
  const std::vector<std::vector<std::size_t>> of_stage =
      std::exchange(holders, std::vector<std::vector<std::size_t>>(boxes.size()));
  for (std::size_t stage = 0; stage < by_stage.size(); ++stage) {
    if (by_stage[stage] != *first) continue;
    for (std::size_t box = 0; box < boxes.size(); ++box) {
      for (const std::size_t device : of_stage[box]) {
        holders[box].push_back(stage * static_cast<std::size_t>(devices) + device);
      }
    }
  }
  return {std::make_shared<const std::vector<Box>>(std::move(boxes)), std::move(holders)};
}

/// A box as several, each with the length 1 along the first dimensions.
std::vector<Box> single_boxes(const Box& box, std::size_t dimensions) {
  if (dimensions == 0 || is_without_elements(box.sizes)) return {box};
  std::vector<Box> singles;
  Box single = box;
  std::fill_n(single.sizes.begin(), dimensions, 1);
  while (true) {
    singles.push_back(single);
    std::size_t d = dimensions;
    while (d > 0 && ++single.offsets[d - 1] == box.offsets[d - 1] + box.sizes[d - 1]) {
      --d;
      single.offsets[d] = box.offsets[d];
    }
    if (d == 0) return singles;
  }
}

RankCut cut_finer(const RankCut& cut, std::size_t dimensions) {
  if (dimensions == 0) return cut;
  std::vector<Box> boxes;
  RankCut finer;
  for (std::size_t i = 0; i < cut.boxes->size(); ++i) {
    for (Box& box : single_boxes((*cut.boxes)[i], dimensions)) {
      boxes.push_back(std::move(box));
      finer.holders.push_back(cut.holders[i]);
    }
  }
  finer.boxes = std::make_shared<const std::vector<Box>>(std::move(boxes));
  return finer;
}

/// The dimension along which a tensor can be cut into ranges of its bytes; nothing if it cannot.
std::optional<std::size_t> first_axis(const Shape& shape) {
  if (is_without_elements(shape)) return std::nullopt;
  const auto axis =
      std::find_if(shape.begin(), shape.end(), [](auto length) { return length > 1; });
  if (axis == shape.end()) return std::nullopt;
  return static_cast<std::size_t>(axis - shape.begin());
}

/// Fills files one after the other with equally many bytes. It counts in floating point: some bytes
/// more or less are no worse.
class EvenFiles {
 public:
  EvenFiles(double total, std::int64_t files) : total_(total), files_(files) {}

  /// The one to which the last rows went.
  std::size_t file() const noexcept { return static_cast<std::size_t>(file_); }
  /// How many of some rows, at least one, go to the present file, or if it is full to a later one.
  std::int64_t take(std::int64_t rows, double row_bytes) {
    while (true) {
      const double end = total_ * static_cast<double>(file_ + 1) / static_cast<double>(files_);
      const double room = end - placed_;
      const bool all =
          file_ + 1 == files_ || row_bytes == 0 || room >= static_cast<double>(rows) * row_bytes;
      const std::int64_t fit = all ? rows : std::llround(room / row_bytes);
      if (fit > 0) {
        const std::int64_t count = std::min(fit, rows);
        placed_ += static_cast<double>(count) * row_bytes;
        return count;
      }
      ++file_;
    }
  }

 private:
  double total_;
  std::int64_t files_;
  std::int64_t file_ = 0;
  double placed_ = 0;
};

}  // namespace

/// Puts boxes into files, parameter by parameter.
class BoxPlan::Builder {
  struct Placed {
    Item item;
    double order;
  };

 public:
  Builder(std::shared_ptr<const TargetTable> target, std::size_t files, const BoxScope& scope)
      : plan_(std::move(target), scope), scope_(scope), files_(files), filled_(files, 0) {}

  const BoxPlan& plan() const noexcept { return plan_; }
  std::uint64_t filled(std::size_t file) const { return filled_[file]; }

  void add_parameter(std::shared_ptr<const std::vector<Box>> boxes, bool is_shared) {
    plan_.boxes_.push_back(std::move(boxes));
    plan_.is_shared_.push_back(is_shared);
  }
  /// Of BoxScope.
  std::size_t single_of(std::size_t parameter) const {
    return scope_.single ? scope_.single(*plan_.parameters_[parameter]) : 0;
  }
  /// To the parameter that was added last.
  /// @param order in the file, ascending; of equal ones, as they are added.
  void add_box(std::size_t box, std::size_t file, double order) {
    const std::size_t parameter = plan_.boxes_.size() - 1;
    if (box > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(ErrorKind::kUnsupported, "is in " + std::to_string(box) + " boxes")
          .for_parameter(plan_.parameters_[parameter]->name);
    }
    files_[file].push_back(
        {{static_cast<std::uint32_t>(parameter), static_cast<std::uint32_t>(box)}, order});
    filled_[file] += bytes_of(parameter, plan_.boxes(parameter)[box]);
  }

  std::uint64_t bytes_of(std::size_t parameter, const Box& box) const {
    return bytes_to_hold(box.sizes, plan_.parameters_[parameter]->dtype);
  }

  BoxPlan finish() && {
    for (std::vector<Placed>& file : files_) {
      std::stable_sort(file.begin(), file.end(),
                       [](const Placed& a, const Placed& b) { return a.order < b.order; });
      for (const Placed& placed : file) plan_.items_.push_back(placed.item);
      plan_.ends_.push_back(plan_.items_.size());
      file = {};
    }
    return std::move(plan_);
  }

 private:
  BoxPlan plan_;
  const BoxScope& scope_;
  std::vector<std::vector<Placed>> files_;
  std::vector<std::uint64_t> filled_;  ///< bytes
};

BoxPlan::BoxPlan(std::shared_ptr<const TargetTable> target, const BoxScope& scope)
    : target_(std::move(target)) {
  for (const TargetParameter& parameter : target_->parameters()) {
    if (!is_array(parameter.dtype)) continue;
    if (scope.takes && !scope.takes(parameter)) continue;
    if (parameter.treatment == Treatment::kRaw) {
      throw Error(ErrorKind::kUnsupported,
                  "--unmatched source copies its slices as they are, and it is not known where "
                  "they lie in the whole")
          .for_parameter(parameter.name)
          .hint("give strategies that have it, or leave it out with --exclude");
    }
    parameters_.push_back(&parameter);
  }
}

BoxPlan BoxPlan::by_rank(std::shared_ptr<const TargetTable> target, const BoxScope& scope) {
  const TargetTable& table = *target;
  const auto ranks = static_cast<std::size_t>(table.rank_count());
  Builder builder(std::move(target), ranks, scope);
  std::map<std::pair<const TargetParameter::Stages*, std::size_t>, RankCut> cuts;
  for (std::size_t i = 0; i < builder.plan().parameters().size(); ++i) {
    const TargetParameter* const parameter = builder.plan().parameters()[i];
    const std::size_t single = builder.single_of(i);
    const RankCut* cut = nullptr;
    RankCut kept;
    if (parameter->treatment == Treatment::kReshard) {
      const auto [found, is_new] = cuts.try_emplace({parameter->stages, single});
      if (is_new) found->second = cut_finer(cut_of(table, parameter->cuts()), single);
      cut = &found->second;
    } else {
      kept.boxes =
          std::make_shared<const std::vector<Box>>(1, whole_box(parameter->grid->full_shape()));
      kept.holders.resize(1);
      for (const Rank rank : RankRange(Rank(), table.rank_count())) {
        if (!table.has(*parameter, rank)) continue;
        kept.holders.front().push_back(static_cast<std::size_t>(rank.number()));
      }
      kept = cut_finer(kept, single);
      cut = &kept;
    }
    const bool is_shared = std::any_of(cut->holders.begin(), cut->holders.end(),
                                       [](const auto& holders) { return holders.size() > 1; });
    builder.add_parameter(cut->boxes, is_shared);
    for (std::size_t box = 0; box < cut->boxes->size(); ++box) {
      const std::vector<std::size_t>& holders = cut->holders[box];
      const auto least = std::min_element(
          holders.begin(), holders.end(),
          [&](std::size_t a, std::size_t b) { return builder.filled(a) < builder.filled(b); });
      if (least != holders.end()) builder.add_box(box, *least, is_shared ? 0 : 1);
    }
  }
  return std::move(builder).finish();
}

BoxPlan BoxPlan::evenly(std::shared_ptr<const TargetTable> target, std::int64_t files,
                        const BoxScope& scope) {
  Builder builder(std::move(target), static_cast<std::size_t>(files), scope);
  const auto& parameters = builder.plan().parameters();
  double total = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    total += static_cast<double>(builder.bytes_of(i, whole_box(parameters[i]->grid->full_shape())));
  }
  EvenFiles even(total, files);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Shape& shape = parameters[i]->grid->full_shape();
    const Box whole = whole_box(shape);
    std::vector<Box> boxes;
    std::vector<std::size_t> places;
    const std::size_t single = builder.single_of(i);
    if (single > 0) {
      boxes = single_boxes(whole, single);
      for (const Box& box : boxes) {
        even.take(1, static_cast<double>(builder.bytes_of(i, box)));
        places.push_back(even.file());
      }
    }
    const auto axis = first_axis(shape);
    const std::int64_t rows = axis ? shape[*axis] : 1;
    const std::uint64_t bytes = builder.bytes_of(i, whole);
    const double row_bytes = static_cast<double>(bytes) / static_cast<double>(rows);
    const std::int64_t block = scope.in_blocks ? rows_of_block(rows, bytes) : rows;
    for (std::int64_t row = 0; single == 0 && row < rows;) {
      const std::int64_t count = even.take(std::min(rows - row, block - row % block), row_bytes);
      boxes.push_back(whole);
      if (axis) {
        boxes.back().offsets[*axis] = row;
        boxes.back().sizes[*axis] = count;
      }
      places.push_back(even.file());
      row += count;
    }
    builder.add_parameter(std::make_shared<const std::vector<Box>>(std::move(boxes)), false);
    for (std::size_t box = 0; box < places.size(); ++box) {
      const std::int64_t row = axis ? builder.plan().boxes(i)[box].offsets[*axis] : 0;
      // A rank that wants some of all rows then finds them together.
      const double order =
          scope.in_blocks ? static_cast<double>(row) / static_cast<double>(rows) : 0;
      builder.add_box(box, places[box], order);
    }
  }
  return std::move(builder).finish();
}

ShownElements BoxPlan::view(const Item& item) const {
  const TargetParameter& of = parameter(item);
  const Box& cut = box(item);
  ShownTensor whole(of.grid);
  const bool is_cut = cut.sizes != of.grid->full_shape();
  return {is_cut ? whole.box(cut.offsets, cut.sizes) : std::move(whole), of.source->dtype,
          of.dtype};
}

std::string BoxPlan::source_attribute(std::span<const Item> items) const {
  return reshardfs::source_attribute(items.size(), [&](const ViewVisitor& visit) {
    for (const Item& item : items) visit(parameter(item).name, view(item).view());
  });
}

BoxPlan box_plan(const ViewContext& context, const BoxScope& scope) {
  const bool is_cut = context.target->strategy().has_value();
  const std::int64_t files =
      std::max<std::int64_t>(context.options.dcp_shards, scope.in_blocks && !is_cut ? 1 : 0);
  if (files == 0) {
    require_complete(*context.target, context.ranks);
    return BoxPlan::by_rank(context.target, scope);
  }
  const RankRange all(Rank(), context.target->rank_count());
  require_complete(*context.target, {all.begin(), all.end()});
  return BoxPlan::evenly(context.target, files, scope);
}

std::vector<std::size_t> shown_files(const ViewContext& context, const BoxPlan& plan,
                                     const std::string& directory) {
  context.tell_left_out(*context.target, directory);
  std::vector<std::size_t> shown;
  if (context.options.dcp_shards > 0) {
    shown.resize(plan.file_count());
    std::iota(shown.begin(), shown.end(), std::size_t{0});
    return shown;
  }
  for (const Rank rank : context.ranks) shown.push_back(static_cast<std::size_t>(rank.number()));
  if (shown.size() < plan.file_count()) {
    context.warnings.push_back(directory +
                               " has only the files of --ranks, which are a part of a checkpoint");
  }
  return shown;
}

}  // namespace reshardfs
