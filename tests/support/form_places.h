// SPDX-License-Identifier: Apache-2.0
/// The elements of a form, one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "layout/form_walk.h"
#include "layout/regions.h"

namespace reshardfs::test {

/// Source and element; of a literal FormTerm::source and FormTerm::base.
using Place = std::pair<std::int64_t, std::int64_t>;

/// Of an element that is visited never, or more than once.
inline constexpr Place kNowhere{-9, 0};
inline constexpr Place kTwice{-9, 1};

/// Of the elements [begin, end) of a form, in C order.
inline std::vector<Place> places_of(const FormWalk& walk, std::int64_t begin, std::int64_t end) {
  std::vector<Place> places(static_cast<std::size_t>(end - begin), kNowhere);
  if (begin == end) return places;
  for_each_region(begin, end - begin, 0, walk.form().shape, [&](const Region& region) {
    walk.visit(region, [&](std::int64_t source, const Nest& nest) {
      for_each_index(nest, [&](std::int64_t from, std::int64_t to) {
        Place& place = places.at(static_cast<std::size_t>(to));
        place = place == kNowhere ? Place(source, from) : kTwice;
      });
    });
  });
  return places;
}

inline std::vector<Place> places_of(const NormalForm& form) {
  return places_of(FormWalk(std::make_shared<const NormalForm>(form)), 0, form.elements());
}

}  // namespace reshardfs::test
