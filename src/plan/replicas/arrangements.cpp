// SPDX-License-Identifier: Apache-2.0
#include "plan/replicas/arrangements.h"

#include <algorithm>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "layout/fold.h"
#include "layout/slicing.h"

namespace reshardfs {
namespace {

/// Whether other files are arranged in the same way: the same files, all with one shape.
bool is_for(const Arrangement& known, const SlicePlacement& other) {
  const SlicePlacement& own = known.placement;
  if (own.holders.rows().size() != 1 || other.holders.rows().size() != 1) return false;
  const Holders::Row& row = own.holders.rows().front();
  const Holders::Row& other_row = other.holders.rows().front();
  return own.devices == other.devices && row.first == other_row.first &&
         row.count == other_row.count && row.entry->shape == other_row.entry->shape &&
         own.full_shape == other.full_shape && known.layout == *other.layout;
}

/// The device that a file's rank is; a catalogue places none that is no device.
std::int64_t device_of(const SlicePlacement& placement, const Holding& holder) {
  return placement.devices.place_of(holder.file->rank).value();
}

void require_shape(const Holding& holder, const Shape& wanted, const Holders& holders) {
  if (holder.entry->shape == wanted) return;
  throw Error(ErrorKind::kBadInput, "the slice of rank " + to_string(holder.file->rank) +
                                        " should have the shape " + to_string(wanted) + " (" +
                                        differing_words(holders) + ")")
      .in_file(holder.file->source->name());
}

/// Which file serves each cell, and which stand in for it.
void place_files(Arrangement& made, CellPattern& pattern, const Slicing& slicing) {
  pattern.files.resize(static_cast<std::size_t>(slicing.cell_count()));
  made.entries.resize(pattern.files.size());
  for (const Holding& holder : made.placement.holders) {
    const std::int64_t device = device_of(made.placement, holder);
    require_shape(holder, slicing.slice_shape(device), made.placement.holders);
    const auto cell = static_cast<std::size_t>(slicing.cell_of(device));
    if (pattern.files[cell] != nullptr) {  // ascending: the lowest replica is the first choice
      pattern.replicas.emplace_back(cell, holder.file);
      continue;
    }
    pattern.files[cell] = holder.file;
    made.entries[cell] = holder.entry;
  }
  std::sort(pattern.replicas.begin(), pattern.replicas.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->rank) < std::pair(b.first, b.second->rank);
  });
  pattern.replicas.shrink_to_fit();
}

Shape full_shape(const Layout& layout, const SlicePlacement& placement) {
  if (placement.full_shape) return *placement.full_shape;
  std::vector<RankSlice> slices;
  for (const Holding& holder : placement.holders) {
    slices.emplace_back(device_of(placement, holder), holder.entry->shape);
  }
  return full_shape_of(layout, slices);
}

ArrangementPtr make(const SlicePlacement& placement) {
  const TensorEntry& first = *placement.holders.front().entry;
  auto made = std::make_shared<Arrangement>(Arrangement{placement, *placement.layout, nullptr, {}});
  const Layout layout = fold_expanded(*placement.layout, first.shape, /*is_slice=*/true);
  auto pattern = std::make_shared<CellPattern>();
  pattern->full_shape = full_shape(layout, placement);
  require_countable(pattern->full_shape, first.dtype);
  const Slicing slicing(layout, pattern->full_shape);
  pattern->partitions = slicing.partitions();
  place_files(*made, *pattern, slicing);
  made->pattern = std::move(pattern);
  return made;
}

}  // namespace

ArrangementPtr Arrangements::find_or_make(const SlicePlacement& placement) {
  // Models have few kinds of parameters; where there are more, they are worked out one by one.
  constexpr std::size_t kMostKinds = 256;
  const std::scoped_lock lock(mutex_);
  for (const ArrangementPtr& known : known_) {
    if (is_for(*known, placement)) return known;
  }
  ArrangementPtr made = make(placement);
  if (placement.holders.rows().size() == 1 && known_.size() < kMostKinds) known_.push_back(made);
  return made;
}

}  // namespace reshardfs
