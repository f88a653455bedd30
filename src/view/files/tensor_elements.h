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
  /// Owns the objects that the view points into; nullptr: they outlive the tensor.
  std::shared_ptr<const void> owner;
  /// The file to which reads of the tensor count. Many tensors may be read through it, one after
  /// the other.
  std::shared_ptr<const ForeseenFile> reads;
};

/// The offset of a box's bytes in the tensor's bytes; nullopt if they are not contiguous.
std::optional<std::uint64_t> place_of_box(const ShownElements& view, const Shape& begin,
                                          const Shape& sizes);

}  // namespace reshardfs
