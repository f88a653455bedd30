// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/saved_cut.h"

#include <algorithm>
#include <string>
#include <utility>

#include "layout/device_grid.h"

namespace reshardfs {

SavedCut::SavedCut(Layout layout, std::vector<Rank> first_ranks) : layout_(std::move(layout)) {
  const DeviceGrid grid(*layout_);
  splits_ = grid.splits();
  std::int64_t count = 1;
  for (const std::int64_t parts : splits_) count *= parts;  // at most the devices
  saved_.resize(static_cast<std::size_t>(count));
  for (std::int64_t device = 0; device < grid.devices(); ++device) {
    std::int64_t slice = 0;
    const std::vector<std::int64_t> parts = grid.parts_of(device);
    for (std::size_t d = 0; d < parts.size(); ++d) slice = slice * splits_[d] + parts[d];
    ranks_.push_back(first_ranks.front() + device);
    slices_.push_back(slice);
  }
  for (const Rank first : first_ranks) {
    for (std::size_t device = 0; device < slices_.size(); ++device) {
      add(slices_[device], first + static_cast<std::int64_t>(device));
    }
  }
}

SavedCut SavedCut::whole(std::vector<Rank> ranks) {
  SavedCut cut;
  cut.ranks_ = std::move(ranks);
  cut.slices_.assign(cut.ranks_.size(), 0);
  cut.saved_.resize(1);
  for (const Rank rank : cut.ranks_) cut.add(0, rank);
  return cut;
}

void SavedCut::add(std::int64_t slice, Rank rank) {
  Slice& saved = saved_[static_cast<std::size_t>(slice)];
  saved.ranks.push_back(rank);
  saved.digits += to_string(rank).size();
}

std::optional<std::int64_t> SavedCut::first_saved_by(Rank rank) const {
  const auto found = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  if (found == ranks_.end() || *found != rank) return std::nullopt;
  const std::int64_t slice = slices_[static_cast<std::size_t>(found - ranks_.begin())];
  if (saved_[static_cast<std::size_t>(slice)].ranks.front() != rank) return std::nullopt;
  return slice;
}

}  // namespace reshardfs
