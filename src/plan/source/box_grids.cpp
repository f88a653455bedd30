// SPDX-License-Identifier: Apache-2.0
#include "plan/source/box_grids.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

void require_like_box(const Holding& holding, const Box& box, DType dtype) {
  const TensorEntry& entry = *holding.entry;
  if (entry.shape == box.sizes && entry.dtype == dtype) return;
  const auto words = [](DType type, const Shape& shape) {
    return std::string(mindspore_name(type)) + " " + to_string(shape);
  };
  throw Error(ErrorKind::kBadInput, "the box " + to_string(box) + " should be " +
                                        words(dtype, box.sizes) + ", but is " +
                                        words(entry.dtype, entry.shape))
      .in_file(holding.file->source->name());
}

/// Places with elements, each once and in their order, and what is there.
struct Cells {
  std::vector<Box> boxes;
  std::vector<Holding> first;                             ///< of each; may be empty
  std::vector<std::pair<std::size_t, Holding>> replicas;  ///< by the number of their box
};

Cells cells_of(const BoxPlacement& placement) {
  std::vector<const PlacedBox*> ordered;
  for (const PlacedBox& placed : placement.boxes) {
    if (element_count(placed.box.sizes) > 0) ordered.push_back(&placed);
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const PlacedBox* a, const PlacedBox* b) { return a->box < b->box; });
  Cells cells;
  for (const PlacedBox* placed : ordered) {
    if (cells.boxes.empty() || cells.boxes.back() != placed->box) {
      cells.boxes.push_back(placed->box);
      cells.first.emplace_back();
    }
    for (const Holding& holding : placed->holdings) {
      if (!cells.first.back()) {
        cells.first.back() = holding;
      } else {
        cells.replicas.emplace_back(cells.boxes.size() - 1, holding);
      }
    }
  }
  return cells;
}

/// "[2, 2] at [0, 4] (model.safetensors)"
std::string box_words(const Cells& cells, std::size_t number) {
  const Holding& holding = cells.first[number];
  const std::string words = to_string(cells.boxes[number]);
  return holding ? words + " (" + printable(holding.file->source->name()) + ")" : words;
}

void require_no_overlap(const BoxSet& boxes, const Cells& cells) {
  const auto found = boxes.overlap();
  if (!found) return;
  throw Error(ErrorKind::kBadInput, "the boxes " + box_words(cells, found->first) + " and " +
                                        box_words(cells, found->second) +
                                        " overlap, and are not equal");
}

/// What a tensor without elements is read from.
Holding any_holding(const BoxPlacement& placement) {
  for (const PlacedBox& placed : placement.boxes) {
    if (!placed.holdings.empty()) return placed.holdings.front();
  }
  return {};
}

class Hash {
 public:
  void add(std::size_t value) noexcept { value_ = (value_ ^ value) * 0x9e3779b97f4a7c15U; }
  std::size_t value() const noexcept { return value_ ^ (value_ >> 32U); }

 private:
  std::size_t value_ = 0;
};

std::size_t hash_of(const BoxSet& boxes) {
  Hash hash;
  for (const std::int64_t size : boxes.full_shape()) hash.add(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const BoxRange range = boxes.range(i);
    for (const std::int64_t at : range.begin) hash.add(static_cast<std::size_t>(at));
    for (const std::int64_t at : range.end) hash.add(static_cast<std::size_t>(at));
  }
  return hash.value();
}

std::size_t hash_of(const CellPattern& pattern) {
  Hash hash;
  const std::hash<const void*> of_pointer;
  hash.add(of_pointer(pattern.boxes.get()));
  for (const RankFile* file : pattern.files) hash.add(of_pointer(file));
  for (const auto& replica : pattern.replicas) hash.add(of_pointer(replica.second));
  return hash.value();
}

bool equal(const BoxSet& a, const BoxSet& b) {
  return a == b;
}

bool equal(const CellPattern& a, const CellPattern& b) {
  return a.boxes == b.boxes && a.files == b.files && a.replicas == b.replicas;
}

/// One that is equal and was made before, or this one.
template <typename Known, typename Value>
auto find_or_keep(Known& known, Value value) {
  const std::size_t hash = hash_of(value);
  const auto [first, last] = known.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (equal(*at->second, value)) return at->second;
  }
  return known.emplace(hash, std::make_shared<const Value>(std::move(value)))->second;
}

}  // namespace

std::shared_ptr<const BoxSet> BoxGrids::shared(BoxSet boxes) {
  return find_or_keep(sets_, std::move(boxes));
}

std::shared_ptr<const CellPattern> BoxGrids::shared(CellPattern pattern) {
  return find_or_keep(patterns_, std::move(pattern));
}

CellGridPtr BoxGrids::make(const BoxPlacement& placement, const TensorEntry& like) {
  require_countable(placement.full_shape, like.dtype);
  for (const PlacedBox& placed : placement.boxes) {
    for (const Holding& holding : placed.holdings) {
      require_like_box(holding, placed.box, like.dtype);
    }
  }
  const Cells cells = cells_of(placement);
  BoxSet boxes(placement.full_shape, cells.boxes);
  require_no_overlap(boxes, cells);

  CellPattern pattern = CellPattern::uncut(placement.full_shape);
  std::vector<const TensorEntry*> entries;
  const auto add_cell = [&](const Holding& holding) {
    pattern.files.push_back(holding.file);
    entries.push_back(holding.entry);
  };
  for (const Holding& holding : cells.first) add_cell(holding);
  if (boxes.uncovered() > 0) add_cell({});
  if (pattern.files.empty()) add_cell(any_holding(placement));
  for (const auto& [cell, holding] : cells.replicas) {
    pattern.replicas.emplace_back(cell, holding.file);
    entries.push_back(holding.entry);
  }
  pattern.boxes = shared(std::move(boxes));
  return std::make_shared<const CellGrid>(shared(std::move(pattern)), std::move(entries), like);
}

}  // namespace reshardfs
