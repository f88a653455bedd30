// SPDX-License-Identifier: Apache-2.0
/// metadata.pkl of torch_checkpointing: which rank's file has which part of which tensor. Source:
/// the package torch_checkpointing 0.1.1 (PyPI), distributed_metadata.py, dtensor_metadata.py,
/// default_metadata.py and checkpoint_layout.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "format/torch/mesh_part.h"

namespace reshardfs {

inline constexpr const char* kItemTable = "metadata.pkl";

struct ItemMesh {
  std::vector<std::int64_t> sizes{};
  std::unordered_map<std::int64_t, std::size_t> places{};  ///< of ranks, in row-major order
};

/// A box of the tensor that a rank has stored.
struct ItemBox {
  Shape offsets{};  ///< in the full tensor
  Shape local{};    ///< in the stored one
  Shape sizes{};

  bool operator==(const ItemBox&) const = default;
};

/// How ranks hold a tensor.
struct ItemSharding {
  Shape full_shape{};
  DType dtype = DType::kFloat32;
  /// nullptr: `boxes` lists what is stored (default_tensor_v1); else a rank has the part that its
  /// place in the mesh tells (DTensorShardingMetadata).
  std::shared_ptr<const ItemMesh> mesh{};
  std::vector<MeshPlacement> placements{};
  std::vector<ItemBox> boxes{};
};

struct ItemGroup {
  ItemSharding sharding{};
  std::shared_ptr<const std::vector<std::int64_t>> ranks{};  ///< ascending, at least one
};

struct ItemTensor {
  std::string name{};  ///< the parts of its path, joined by dots; without the item
  std::vector<ItemGroup> groups{};
  std::string problem{};  ///< why it cannot be shown; empty: it can
};

enum class ItemFormat : std::uint8_t { kTorch, kSafetensors, kJson, kRaw };

struct ItemLayout {
  std::string file{};  ///< relative to the table's directory; leads to no place outside of it
  ItemFormat format = ItemFormat::kTorch;
};

/// What was saved under one key at the top.
struct SavedItem {
  std::string name{};
  std::vector<ItemTensor> tensors{};
  std::vector<ItemLayout> layouts{};  ///< of each rank
};

struct ItemTable {
  std::int64_t world_size = 0;
  std::vector<SavedItem> items{};
};

/// "model_3.pt": where an item without a layout is.
std::string item_file(const std::string& item, std::int64_t rank);

/// @param bytes of the file. They are a pickle, of which nothing is called.
/// @throws Error, without the file: kUnsupported for a version that is not known; kBadInput for
///         other values than plain ones, for ranks other than 0 to world_size - 1, for files that
///         two ranks have, and for paths that lead out of the directory.
ItemTable read_item_table(std::string bytes);

/// Whether a file has the words that such a table has, be it damaged or not.
bool is_item_table(const std::string& bytes) noexcept;

}  // namespace reshardfs
