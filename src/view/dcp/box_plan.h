// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "layout/box_set.h"
#include "plan/target/shown_elements.h"
#include "plan/target/target_table.h"
#include "view/files/source_attribute.h"
#include "view/view.h"
#include "view/weights.h"

namespace reshardfs {

/// Which parameters a plan has, and how finely it cuts them at least.
struct BoxScope {
  TakesParameter takes{};
  /// The number of leading dimensions along which each box has the length 1; empty: none.
  std::function<std::size_t(const TargetParameter&)> single{};
  /// Whether what no strategy cuts is cut into blocks of rows (row_blocks.h).
  bool in_blocks = false;
};

/// A checkpoint divided into boxes, as torch.distributed.checkpoint saves it: every element of the
/// destination's arrays is in exactly one box, and every box in one file. There may be a million
/// boxes.
class BoxPlan {
 public:
  struct Item {
    std::uint32_t parameter = 0;  ///< in parameters()
    std::uint32_t box = 0;        ///< of the parameter, in boxes()
  };

  /// Makes one file for each destination rank, with the boxes that the rank holds. A box that
  /// several ranks hold goes to the rank with the fewest bytes so far, as in PyTorch
  /// (_dedup_save_plans.py). These come first in a file, together: all their holders read them, and
  /// the kernel reads ahead.
  /// @throws Error kUnsupported with the parameter if it is a raw slice, whose place in the full
  ///        tensor is unknown.
  static BoxPlan by_rank(std::shared_ptr<const TargetTable> target, const BoxScope& scope = {});
  /// Makes the given number of files, of about equal size. A tensor that crosses a file's end is
  /// cut along its first dimension, and so is a block.
  /// @throws Error as by_rank().
  static BoxPlan evenly(std::shared_ptr<const TargetTable> target, std::int64_t files,
                        const BoxScope& scope = {});

  const std::shared_ptr<const TargetTable>& target() const noexcept { return target_; }
  /// In the table's order.
  const std::vector<const TargetParameter*>& parameters() const noexcept { return parameters_; }
  const std::vector<Box>& boxes(std::size_t parameter) const { return *boxes_[parameter]; }
  /// By file and, in it, those that several ranks hold first, then by parameter; with
  /// BoxScope::in_blocks by the place of their rows in the tensor.
  std::span<const Item> items() const noexcept { return items_; }
  std::size_t file_count() const noexcept { return ends_.size(); }
  /// The index in items() at which a file's items begin.
  std::size_t first_item(std::size_t file) const { return file == 0 ? 0 : ends_[file - 1]; }
  std::span<const Item> items_of(std::size_t file) const {
    return items().subspan(first_item(file), ends_[file] - first_item(file));
  }

  const TargetParameter& parameter(const Item& item) const { return *parameters_[item.parameter]; }
  const Box& box(const Item& item) const { return boxes(item.parameter)[item.box]; }
  /// Whether several ranks hold it.
  bool is_shared(const Item& item) const { return is_shared_[item.parameter]; }
  /// The elements that an item consists of.
  ShownElements view(const Item& item) const;
  /// The source_attribute() of a file with these items.
  std::string source_attribute(std::span<const Item> items) const;

 private:
  BoxPlan(std::shared_ptr<const TargetTable> target, const BoxScope& scope);
  class Builder;

  std::shared_ptr<const TargetTable> target_;
  std::vector<const TargetParameter*> parameters_;
  std::vector<std::shared_ptr<const std::vector<Box>>>
      boxes_;                    ///< parameters with the same cut share theirs
  std::vector<bool> is_shared_;  ///< by parameter
  std::vector<Item> items_;
  std::vector<std::size_t> ends_;  ///< by file, in items_
};

/// The plan that all forms of torch.distributed.checkpoint share, made from the options.
/// @throws Error as BoxPlan; kMissing if no source file has a part of a shown tensor.
BoxPlan box_plan(const ViewContext& context, const BoxScope& scope = {});

/// The files of a plan that are shown, ascending. Adds warnings about what the checkpoint lacks.
/// @param directory the path that users see, for example "dcp/".
std::vector<std::size_t> shown_files(const ViewContext& context, const BoxPlan& plan,
                                     const std::string& directory);

}  // namespace reshardfs
