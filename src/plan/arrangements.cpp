// SPDX-License-Identifier: Apache-2.0
#include "plan/arrangements.h"

#include <algorithm>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "layout/fold.h"
#include "layout/slicing.h"

namespace reshardfs {
namespace {

/// Whether other holders are arranged in the same way: the same files, all with one shape.
bool is_for(const Arrangement& known, const Layout& layout, Rank first_rank,
            const Holders& holders) {
  if (known.holders.runs().size() != 1 || holders.runs().size() != 1) return false;
  const Holders::Run& own = known.holders.runs().front();
  const Holders::Run& other = holders.runs().front();
  return known.first_rank == first_rank && own.first == other.first && own.count == other.count &&
         own.entry->shape == other.entry->shape && known.layout == layout;
}

void require_shape(const Holding& holder, const Shape& wanted, const Holders& holders) {
  if (holder.entry->shape == wanted) return;
  throw Error(ErrorKind::kBadInput, "the slice of rank " + to_string(holder.file->rank) +
                                        " should have the shape " + to_string(wanted) + " (" +
                                        differing_words(holders) + ")")
      .in_file(holder.file->source->name());
}

/// Which file serves each cell, and which stand in for it.
void place_files(Arrangement& made, ShardPattern& pattern, const Slicing& slicing) {
  pattern.files.resize(static_cast<std::size_t>(slicing.cell_count()));
  made.entries.resize(pattern.files.size());
  for (const Holding& holder : made.holders) {
    const std::int64_t local = holder.file->rank - made.first_rank;
    require_shape(holder, slicing.slice_shape(local), made.holders);
    const auto cell = static_cast<std::size_t>(slicing.cell_of(local));
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

ArrangementPtr make(const Layout& layout_as_written, Rank first_rank, const Holders& holders) {
  const Layout layout =
      fold_expanded(layout_as_written, holders.front().entry->shape, /*is_slice=*/true);
  auto made = std::make_shared<Arrangement>();
  made->layout = layout_as_written;
  made->first_rank = first_rank;
  made->holders = holders;
  std::vector<RankSlice> slices;
  for (const Holding& holder : holders) {
    slices.emplace_back(holder.file->rank - first_rank, holder.entry->shape);
  }
  auto pattern = std::make_shared<ShardPattern>();
  pattern->full_shape = full_shape_of(layout, slices);
  require_countable(pattern->full_shape, holders.front().entry->dtype);
  const Slicing slicing(layout, pattern->full_shape);
  pattern->partitions = slicing.partitions();
  place_files(*made, *pattern, slicing);
  made->pattern = std::move(pattern);
  return made;
}

}  // namespace

ArrangementPtr Arrangements::find_or_make(const Layout& layout, Rank first_rank,
                                          const Holders& holders) {
  // Models have few kinds of parameters; where there are more, they are worked out one by one.
  constexpr std::size_t kMostKinds = 256;
  const std::scoped_lock lock(mutex_);
  for (const ArrangementPtr& known : known_) {
    if (is_for(*known, layout, first_rank, holders)) return known;
  }
  ArrangementPtr made = make(layout, first_rank, holders);
  if (holders.runs().size() == 1 && known_.size() < kMostKinds) known_.push_back(made);
  return made;
}

}  // namespace reshardfs
