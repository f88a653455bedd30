// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shard_catalogue.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/text.h"
#include "checkpoint/piece_boxes.h"

namespace reshardfs {
namespace {

/// Tensors of a row for each word of the vocabulary, or some more.
bool has_row_for_each_word(std::string_view name) {
  constexpr std::array<std::string_view, 4> kEnds{"embed_tokens.weight", "tok_embeddings.weight",
                                                  "word_embeddings.weight", "lm_head.weight"};
  return std::any_of(kEnds.begin(), kEnds.end(), [&](std::string_view end) {
    return name == end || (name.ends_with(end) && name[name.size() - end.size() - 1] == '.');
  });
}

}  // namespace

ShardCatalogue::ShardCatalogue(ShardedModel model)
    : Catalogue(SourceRanks(RankRange(Rank(), model.shards), model.shards)),
      model_(std::move(model)) {}

std::optional<BoxPlacement> ShardCatalogue::boxes(const std::string& name,
                                                  const Holders& holders) const {
  BoxPlacement placement = boxes_of_pieces(holders, {});
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
  require_rows(name, full);
  return placement;
}

void ShardCatalogue::require_rows(const std::string& name, const Shape& full) const {
  if (!model_.vocabulary || full.empty() || full[0] >= *model_.vocabulary) return;
  if (!has_row_for_each_word(name)) return;
  throw Error(ErrorKind::kMissing, "has " + std::to_string(full[0]) + " rows in " +
                                       counted(static_cast<std::size_t>(model_.shards), "shard") +
                                       ", but config.json states a vocabulary of " +
                                       std::to_string(*model_.vocabulary))
      .hint("bring the files of the last ranks, which are missing");
}

std::vector<std::string> ShardCatalogue::warnings() const {
  if (model_.vocabulary) return {};
  return {"the tensors are joined from " +
          counted(static_cast<std::size_t>(model_.shards), model_.numbered ? "shard" : "file") +
          "; the files do not tell how many there should be: without the last ones, tensors would "
          "be smaller. A config.json with vocab_size beside them is compared"};
}

}  // namespace reshardfs
