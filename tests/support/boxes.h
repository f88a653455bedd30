// SPDX-License-Identifier: Apache-2.0
/// Checkpoint sets in memory whose tensors are in boxes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/box_catalogue.h"
#include "checkpoint/checkpoint_set.h"
#include "support/sources.h"

namespace reshardfs::test {

struct Piece {
  std::string name;
  DType dtype = DType::kInt8;
  Box box;
  std::string bytes;
};

/// Of a parameter [3, 4] of bytes 'a', 'b', ...: five boxes that no cut from side to side parts.
inline std::vector<Piece> pinwheel(const std::string& name) {
  return {{name, DType::kUInt8, {{0, 0}, {1, 3}}, "abc"},
          {name, DType::kUInt8, {{0, 3}, {2, 1}}, "dh"},
          {name, DType::kUInt8, {{2, 1}, {1, 3}}, "jkl"},
          {name, DType::kUInt8, {{1, 0}, {2, 1}}, "ei"},
          {name, DType::kUInt8, {{1, 1}, {1, 2}}, "fg"}};
}

/// A file with these pieces, one behind the other; each in two extents.
inline RankFile piece_file(std::int64_t rank, const std::vector<Piece>& pieces,
                           std::int64_t part = -1) {
  std::string bytes = "head";
  std::vector<TensorEntry> entries;
  BoxOffsets offsets;
  for (const Piece& piece : pieces) {
    TensorEntry entry;
    entry.name = piece.name;
    entry.dtype = piece.dtype;
    entry.shape = piece.box.sizes;
    entry.content_bytes = piece.bytes.size();
    const std::size_t half = piece.bytes.size() / 2;
    for (const std::string& stored : {piece.bytes.substr(0, half), piece.bytes.substr(half)}) {
      if (!stored.empty()) entry.extents.emplace_back(bytes.size(), stored.size());
      bytes += stored + "..";
    }
    offsets.add(entries.size(), piece.box.offsets);
    entries.push_back(std::move(entry));
  }
  RankFile file;
  file.rank = Rank(rank);
  file.part = part;
  file.path = "set/rank_" + std::to_string(rank) + (part < 0 ? "" : "_" + std::to_string(part));
  file.source = std::make_shared<MemorySource>(std::move(bytes), file.path.string());
  file.index = std::make_shared<const FileIndex>(std::move(entries), IndexHints{}, offsets);
  return file;
}

/// States the full shapes of some parameters, and that their pieces are boxes of these.
class StatedBoxes final : public BoxCatalogue {
 public:
  /// @param lost boxes that are in no file.
  explicit StatedBoxes(const SourceRanks& ranks, std::map<std::string, Shape> full_shapes,
                       std::map<std::string, std::vector<Box>> lost = {})
      : BoxCatalogue(ranks), full_shapes_(std::move(full_shapes)), lost_(std::move(lost)) {}

  std::optional<BoxPlacement> boxes(const std::string& name,
                                    const Holders& holders) const override {
    const auto full = full_shapes_.find(name);
    if (full == full_shapes_.end()) return std::nullopt;
    BoxPlacement placement = boxes_of_entries(holders, full->second);
    const auto lost = lost_.find(name);
    if (lost == lost_.end()) return placement;
    for (const Box& box : lost->second) placement.boxes.push_back({box, {}});
    return placement;
  }
  std::string hint() const override { return "bring all files of one save"; }

 private:
  std::map<std::string, Shape> full_shapes_;
  std::map<std::string, std::vector<Box>> lost_;
};

/// @param full_shapes see StatedBoxes.
inline std::shared_ptr<const CheckpointSet> box_set(
    std::vector<RankFile> files, std::map<std::string, Shape> full_shapes,
    std::map<std::string, std::vector<Box>> lost = {}) {
  Rank last;
  for (const RankFile& file : files) last = std::max(last, file.rank);
  const SourceRanks ranks(RankRange(Rank(), last - Rank() + 1), last - Rank() + 1);
  return std::make_shared<const CheckpointSet>(
      std::move(files),
      std::make_shared<const StatedBoxes>(ranks, std::move(full_shapes), std::move(lost)));
}

}  // namespace reshardfs::test
