// SPDX-License-Identifier: Apache-2.0
#include "report/map_sources.h"

#include <algorithm>

#include <fmt/format.h>

#include "reshardfs/error.h"

namespace reshardfs {

MapSources::MapSources(const SliceMap& map) : by_tensor_(map.made_by_map) {
  for (const Stretch& row : map.rows) {
    for (const Stretch& column : map.columns) {
      const Holding& holding = map.holdings.at({row.source_part, column.source_part});
      if (holding) keys_.push_back(key(holding));
    }
  }
  std::sort(keys_.begin(), keys_.end());
  keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
}

MapSources::Key MapSources::key(const Holding& holding) const {
  return by_tensor_ ? Key{Rank(), holding.entry->name} : Key{holding.file->rank, {}};
}

std::size_t MapSources::number(const Holding& holding) const {
  return static_cast<std::size_t>(std::lower_bound(keys_.begin(), keys_.end(), key(holding)) -
                                  keys_.begin());
}

std::string MapSources::label(std::size_t number) const {
  return by_tensor_ ? printable(keys_[number].second) : to_string(keys_[number].first);
}

std::string MapSources::short_label(std::size_t number) const {
  return by_tensor_ ? fmt::format("#{}", number + 1) : to_string(keys_[number].first);
}

}  // namespace reshardfs
