// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "plan/reading/foresight.h"
#include "plan/target/shown_elements.h"

namespace reshardfs {

/// What a tensor's bytes are made of.
struct TensorElements {
  std::string name;
  ShownElements view;
  /// What the view points into; nullptr: it outlives the tensor.
  std::shared_ptr<const void> owner;
  /// Whose reads those of the tensor are. It may be read by many tensors, one after the other.
  std::shared_ptr<const ForeseenFile> reads;
};

/// Where the bytes of a box begin in those of the tensor, if they are one range of them.
std::optional<std::uint64_t> place_of_box(const ShownElements& view, const Shape& begin,
                                          const Shape& sizes);

}  // namespace reshardfs
