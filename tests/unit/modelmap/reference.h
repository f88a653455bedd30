// SPDX-License-Identifier: Apache-2.0
/// A tensor as a list of elements, each with the place that it came from: what normal forms are
/// compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "layout/normal_form.h"
#include "support/form_places.h"

namespace reshardfs::modelmap::testing {

using test::Place;

struct Elements {
  Shape shape{};
  std::vector<Place> places{};

  static Elements of_source(const Shape& shape, std::int64_t source) {
    Elements out{shape, {}};
    for (std::int64_t i = 0; i < element_count(shape); ++i) out.places.emplace_back(source, i);
    return out;
  }
  /// A tensor whose element at each index is that of this one at the index that `from` gives.
  template <typename From>
  Elements moved(const Shape& to, From from) const {
    Elements out{to, {}};
    std::vector<std::int64_t> index(to.size(), 0);
    for (std::int64_t i = 0; i < element_count(to); ++i) {
      out.places.push_back(at(from(index)));
      for (std::size_t d = to.size(); d-- > 0;) {
        if (++index[d] < to[d]) break;
        index[d] = 0;
      }
    }
    return out;
  }
  const Place& at(const std::vector<std::int64_t>& index) const {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + index[d];
    return places[static_cast<std::size_t>(place)];
  }
};

using test::places_of;

}  // namespace reshardfs::modelmap::testing
