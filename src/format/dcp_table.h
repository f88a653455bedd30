// SPDX-License-Identifier: Apache-2.0
/// The table (.metadata) of a distributed checkpoint of PyTorch: which tensors there are, of which
/// boxes they are made, and where these are in the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/byte_range.h"

namespace reshardfs {

/// An archive of torch.save with one box.
struct DcpPlace {
  std::uint32_t file = 0;  ///< in DcpTable::files
  ByteRange item;
};

/// Its boxes are in the table from `first_box` on; those without elements are left out. They are in
/// bounds, no two overlap, and all elements are in one.
struct DcpTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::size_t first_box = 0;
  std::size_t boxes = 0;
  std::size_t first_bound = 0;  ///< in DcpTable::bounds
};

struct RefusedTensor {
  std::string name;
  std::string reason;
};

/// What is no tensor: a number, a text, any object. Never opened.
struct DcpByteItem {
  std::string name;
  DcpPlace place;
};

struct DcpTable {
  /// Relative to the table's directory and inside of it.
  std::vector<std::string> files;
  std::vector<DcpTensor> tensors;
  std::vector<RefusedTensor> refused;
  std::vector<DcpByteItem> byte_items;
  std::vector<DcpPlace> places;  ///< of all boxes
  /// Of each box its offsets, then its sizes.
  std::vector<std::int64_t> bounds;

  std::span<const std::int64_t> box_bounds(const DcpTensor& tensor, std::size_t box) const {
    const std::size_t width = 2 * tensor.shape.size();
    return std::span(bounds).subspan(tensor.first_bound + box * width, width);
  }
};

/// Runs nothing of it. What is wrong with one tensor refuses that tensor.
/// @param bytes the whole file.
/// @throws Error kBadInput if it is no such table; kUnsupported.
DcpTable read_dcp_table(std::string bytes);

}  // namespace reshardfs
