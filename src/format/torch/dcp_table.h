// SPDX-License-Identifier: Apache-2.0
/// The table (.metadata) of a distributed checkpoint of PyTorch, or of hyper-parallel: which
/// tensors there are, of which boxes they are made, and where these are in the files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "base/byte_range.h"
#include "format/listed_items.h"

namespace reshardfs {

/// Of hyper-parallel's files that have objects.
inline constexpr std::string_view kObjectExtension = ".bytes";

/// How a value is reached in the nested dictionaries and lists of a distributed checkpoint of
/// PyTorch: keys and positions, from the outermost on.
using DcpPath = std::vector<std::variant<std::string, std::int64_t>>;

/// Where a box is in an item that has more than the box: the item's shape is [`elements`] if it is
/// flat, else [1, ..., 1, `elements`], of one dimension more than the box. The box's elements lie
/// side by side from `first` on. In elements.
struct ItemRange {
  std::int64_t first = 0;
  std::int64_t elements = 0;
  bool is_flat = false;
};

/// An archive of torch.save with one box, or a tensor of a safetensors file that is one.
struct DcpPlace {
  static constexpr std::uint32_t kOwnName = 0xffffffff;

  std::uint32_t file = 0;  ///< in DcpTable::files
  ByteRange item{};
  /// In DcpTable::keys, what the file calls the tensor; kOwnName: as the table does.
  std::uint32_t key = kOwnName;
};

/// Its boxes are in the table from `first_box` on; those without elements are left out. They are in
/// bounds. But for a table of one rank, no two overlap, and all elements are in one; of a joined
/// one, and of one of hyper-parallel, equal boxes are replicas.
struct DcpTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  std::size_t first_box = 0;
  std::size_t boxes = 0;
  std::size_t first_bound = 0;  ///< in DcpTable::bounds
};

/// An object that is not a tensor: a number, a text, anything else. Never opened.
struct DcpByteItem {
  std::string name;
  DcpPlace place;  ///< its file is not in DcpTable::files if it is unknown
};

struct DcpTable {
  /// Of hyper-parallel: tensors are found in their files by their names, or by keys. Their `item`
  /// is empty.
  bool by_name = false;
  /// Each object is all of a file, as in the first form of hyper-parallel.
  bool has_object_files = false;
  /// Relative to the table's directory and inside of it.
  std::vector<std::string> files;
  std::vector<DcpTensor> tensors;
  std::vector<RefusedTensor> refused;
  std::vector<DcpByteItem> byte_items;
  /// What names stand for (planner_data); those that are missing are keys themselves.
  std::unordered_map<std::string, DcpPath> paths;
  std::vector<DcpPlace> places;  ///< of all boxes
  std::vector<std::string> keys;
  /// Of boxes that are not all of their items: see undo_reformulation().
  std::unordered_map<std::size_t, ItemRange> runs;
  /// Of each box its offsets, then its sizes.
  std::vector<std::int64_t> bounds;

  std::span<const std::int64_t> box_bounds(const DcpTensor& tensor, std::size_t box) const {
    const std::size_t width = 2 * tensor.shape.size();
    return std::span(bounds).subspan(tensor.first_bound + box * width, width);
  }
};

enum class DcpTableKind : std::uint8_t {
  kWhole,      ///< of all ranks: every element is in a box
  kOfOneRank,  ///< saved without collectives, with that rank's boxes alone: see DcpJoin
};

/// Runs nothing of it. What is wrong with one tensor refuses that tensor. Sources: pytorch/pytorch
/// torch/distributed/checkpoint/metadata.py, filesystem.py; mindspore-ai/hyper-parallel
/// hyper_parallel/core/checkpoint/metadata.py (the first form), and
/// hyper_parallel/core/distributed_checkpoint/metadata.py, storage.py (since 2026).
/// @param bytes the whole file.
/// @throws Error kBadInput if it is no such table; kUnsupported.
DcpTable read_dcp_table(std::string bytes, DcpTableKind kind = DcpTableKind::kWhole);

/// Why the boxes of a tensor are not all of it, each element once. They must be in bounds.
/// @param replicas whether equal boxes count once.
std::optional<std::string> cover_problem(const DcpTable& table, const DcpTensor& tensor,
                                         bool replicas);

}  // namespace reshardfs
