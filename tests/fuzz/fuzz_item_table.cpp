// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "checkpoint/items/item_boxes.h"
#include "checkpoint/items/item_table.h"
#include "fuzz/fuzzing.h"

using namespace reshardfs;

namespace {

using fuzz::require;

constexpr std::int64_t kMostRanksTried = 64;

void check_boxes(const ItemSharding& sharding, std::int64_t rank) {
  for (const ItemBox& box : boxes_of(sharding, rank)) {
    require(box.sizes.size() == sharding.full_shape.size(), "a box of other dimensions");
    for (std::size_t d = 0; d < box.sizes.size(); ++d) {
      require(box.sizes[d] > 0 && box.offsets[d] >= 0 && box.local[d] >= 0, "an impossible box");
      require(box.offsets[d] <= sharding.full_shape[d] - box.sizes[d], "a box leaves its tensor");
    }
  }
}

}  // namespace

/// The input is a metadata.pkl of torch_checkpointing; its files are in its directory, and its
/// boxes in their tensors.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  fuzz::may_refuse([&] {
    const ItemTable table = read_item_table(bytes);
    for (const SavedItem& item : table.items) {
      require(item.layouts.size() == static_cast<std::size_t>(table.world_size),
              "a rank is missing");
      for (const ItemLayout& layout : item.layouts) {
        require(
            !layout.file.empty() && layout.file.front() != '/' && !layout.file.starts_with("../"),
            "a file is elsewhere");
      }
      for (const ItemTensor& tensor : item.tensors) {
        for (std::int64_t rank = 0; rank < std::min(table.world_size, kMostRanksTried); ++rank) {
          const ItemGroup* const group = group_of(tensor, rank);
          if (group != nullptr) fuzz::may_refuse([&] { check_boxes(group->sharding, rank); });
        }
      }
    }
  });
  return 0;
}
