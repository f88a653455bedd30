// SPDX-License-Identifier: Apache-2.0
#include "view/files/shared_storages.h"

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

namespace reshardfs {
namespace {

/// Parameters with the same have the same bytes.
struct Place {
  const void* of = nullptr;   ///< the file, or what a parameter that is joined is made of
  const void* cut = nullptr;  ///< how it is cut; nullptr for a place in a file
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents{};  ///< in the file
  ContentEncoding encoding = ContentEncoding::kPlain;
  DType stored = DType::kFloat32;
  DType through = DType::kFloat32;
  DType shown = DType::kFloat32;

  bool operator<(const Place& other) const { return tied() < other.tied(); }

 private:
  std::tuple<const void*, const void*, const std::vector<std::pair<std::uint64_t, std::uint64_t>>&,
             ContentEncoding, DType, DType, DType>
  tied() const {
    return {of, cut, extents, encoding, stored, through, shown};
  }
};

/// `of` is nullptr where nothing is known.
Place place_of(const TargetTable& target, Rank rank, const TargetParameter& parameter) {
  Place place;
  place.through = parameter.source->dtype;
  place.shown = parameter.dtype;
  const Holding holding = target.view(parameter, rank).whole_cell();
  if (!holding) {
    place.of = parameter.grid.get();
    place.cut = parameter.by_stage;
    if (parameter.grid) place.stored = parameter.grid->dtype();
    return place;
  }
  place.of = holding.file;
  place.encoding = holding.entry->encoding;
  place.stored = holding.entry->dtype;
  for (const ByteRange& extent : holding.entry->extents) {
    place.extents.emplace_back(extent.offset(), extent.end());
  }
  return place;
}

}  // namespace

std::vector<std::size_t> shared_storages(const TargetTable& target, Rank rank,
                                         std::span<const TargetParameter* const> parameters) {
  std::vector<std::size_t> storages;
  storages.reserve(parameters.size());
  std::map<Place, std::size_t> known;
  std::size_t count = 0;
  for (const TargetParameter* parameter : parameters) {
    const bool is_empty = element_count(target.slice_shape(*parameter, rank)) == 0;
    Place place = is_empty ? Place() : place_of(target, rank, *parameter);
    std::size_t storage = count;
    if (place.of != nullptr) storage = known.try_emplace(std::move(place), count).first->second;
    if (storage == count) ++count;
    storages.push_back(storage);
  }
  return storages;
}

}  // namespace reshardfs
