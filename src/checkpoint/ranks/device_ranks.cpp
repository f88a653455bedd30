// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/device_ranks.h"

#include <algorithm>
#include <numeric>

namespace reshardfs {

DeviceRanks::DeviceRanks(const std::vector<Rank>& ranks) {
  const auto gap = std::adjacent_find(ranks.begin(), ranks.end(),
                                      [](Rank before, Rank rank) { return rank - before != 1; });
  if (gap == ranks.end()) {
    range_ = {ranks.front(), static_cast<std::int64_t>(ranks.size())};
    return;
  }
  std::vector<std::int64_t> places(ranks.size());
  std::iota(places.begin(), places.end(), 0);
  std::sort(places.begin(), places.end(), [&](std::int64_t a, std::int64_t b) {
    return ranks[static_cast<std::size_t>(a)] < ranks[static_cast<std::size_t>(b)];
  });
  listed_ = std::make_shared<const Listed>(Listed{ranks, std::move(places)});
}

DeviceRanks DeviceRanks::one_group(const std::vector<Rank>& ranks) {
  DeviceRanks made(ranks);
  const RankRange& range = made.range_;
  made.is_group_ = !made.listed_ && range.first().number() % range.size() == 0;
  return made;
}

Rank DeviceRanks::at(std::int64_t place) const {
  return listed_ ? listed_->ranks[static_cast<std::size_t>(place)] : range_.first() + place;
}

std::optional<std::int64_t> DeviceRanks::place_of(Rank rank) const {
  if (is_group_) return rank.number() % range_.size();
  if (!listed_) {
    return range_.contains(rank) ? std::optional(rank - range_.first()) : std::nullopt;
  }
  const auto& places = listed_->places;
  const auto found =
      std::lower_bound(places.begin(), places.end(), rank,
                       [this](std::int64_t place, Rank wanted) { return at(place) < wanted; });
  if (found == places.end() || at(*found) != rank) return std::nullopt;
  return *found;
}

}  // namespace reshardfs
