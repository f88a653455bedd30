// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "checkpoint/items/item_table.h"
#include "format/torch/pickle_tree.h"

namespace reshardfs {

/// Reads what a table states of the shardings of tensors, which share their meshes and their lists
/// of ranks. All of its functions throw Error kBadInput or kUnsupported, without the file, for
/// what is not stated as the program states it: then the tensor cannot be shown.
class ItemShardings {
 public:
  explicit ItemShardings(const PickleTree& tree) : tree_(tree) {}

  /// {"sharding_metadata": {"type", "data"}, "ranks": (...)}
  ItemGroup group(PickleValue value);

 private:
  using Numbers = std::vector<std::int64_t>;

  ItemSharding sharding(PickleValue value);
  void take_mesh(PickleValue data, ItemSharding& out);
  void take_boxes(PickleValue data, ItemSharding& out) const;
  MeshPlacement placement(PickleValue value) const;
  std::vector<Shape> shapes(PickleValue value, const char* what) const;
  Shape shape(PickleValue value, const char* what) const;
  Numbers numbers(PickleValue value, const char* what) const;

  const PickleTree& tree_;
  std::map<std::pair<Numbers, Numbers>, std::shared_ptr<const ItemMesh>> meshes_;
  std::map<Numbers, std::shared_ptr<const Numbers>> ranks_;
};

/// Visits the elements of a list or a tuple until visit(value) returns false. None of others.
template <typename Visit>
void for_each_element(const PickleTree& tree, PickleValue value, Visit&& visit) {
  for (const PickleValue element : tree.tuple(value)) {
    if (!visit(element)) return;
  }
  tree.for_each(value, visit);
}

}  // namespace reshardfs
