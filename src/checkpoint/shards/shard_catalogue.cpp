// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shards/shard_catalogue.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "checkpoint/entry_boxes.h"

namespace reshardfs {
ShardCatalogue::ShardCatalogue(std::int64_t shards, std::vector<std::string> names)
    : BoxCatalogue(SourceRanks(RankRange(Rank(), shards), shards)), names_(std::move(names)) {}

std::optional<BoxPlacement> ShardCatalogue::boxes(const std::string& /*name*/,
                                                  const Holders& holders) const {
  BoxPlacement placement = boxes_of_entries(holders, {});
  Shape& full = placement.full_shape;
  full.assign(placement.boxes.front().box.sizes.size(), 0);
  for (const PlacedBox& placed : placement.boxes) {
    const Box& box = placed.box;
    if (box.sizes.size() != full.size()) {
      throw Error(ErrorKind::kBadInput, "its parts have " + std::to_string(full.size()) + " and " +
                                            std::to_string(box.sizes.size()) + " dimensions")
          .in_file(placed.holdings.front().file->source->name())
          .hint(hint());
    }
    for (std::size_t d = 0; d < full.size(); ++d) {
      full[d] = std::max(full[d], add_or_throw(box.offsets[d], box.sizes[d], "its size"));
    }
  }
  return placement;
}

}  // namespace reshardfs
