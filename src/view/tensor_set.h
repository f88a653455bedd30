// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"
#include "reshardfs/tensor.h"

#include "base/engine.h"
#include "plan/reading/foresight.h"
#include "plan/target/shown_elements.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// What a tensor's bytes are made of.
struct TensorElements {
  std::string name;
  ShownElements view;
  /// Owns the objects that the view points into; nullptr: they outlive the tensor.
  std::shared_ptr<const void> owner;
  /// The file to which reads of the tensor count. Many tensors may be read through it, one after
  /// the other.
  std::shared_ptr<const ForeseenFile> reads;
};

/// The offset of a box's bytes in the tensor's bytes; nullopt if they are not contiguous.
std::optional<std::uint64_t> place_of_box(const ShownElements& view, const Shape& begin,
                                          const Shape& sizes);

/// Access to the sources of a tensor's elements, for code inside reshardfs.
struct TensorAccess {
  static Tensor whole(std::shared_ptr<const TensorElements> elements);
  /// The sources of a range of its bytes. @pre the range does not leave the tensor.
  RESHARDFS_ENGINE static void for_each_use(const Tensor& tensor, const ByteRange& bytes,
                                            SourceSink& sink);
};

/// The elements of a parameter that the rank has. The result points into the table.
ShownElements elements_of(const TargetTable& table, Rank rank, const TargetParameter& parameter);

/// The parameters of one rank of a table. The string_views below point into the table.
struct TensorSet::State {
  State(std::shared_ptr<const TargetTable> of, Rank held_by);

  std::shared_ptr<const TargetTable> table;
  Rank rank;
  std::vector<const TargetParameter*> parameters;
  std::unordered_map<std::string_view, std::size_t> numbers;
};

}  // namespace reshardfs
