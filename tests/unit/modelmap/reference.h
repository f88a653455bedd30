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

#include "modelmap/form_runs.h"
#include "modelmap/normal_form.h"

namespace reshardfs::modelmap::testing {

/// Source (or Box::kInteger) and element (or value).
using Place = std::pair<std::int64_t, std::int64_t>;

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

/// The elements [begin, end) of a form, by its runs.
inline std::vector<Place> places_of(const RunTree& tree, std::int64_t begin, std::int64_t end) {
  std::vector<Place> places;
  tree.for_each_run(begin, end, [&](const Run& run) {
    // What comes out of order shows as a wrong element.
    if (run.target != begin + static_cast<std::int64_t>(places.size())) places.emplace_back(-9, 0);
    for (std::int64_t i = 0; i < run.count; ++i) {
      places.emplace_back(run.source, run.source < 0 ? run.first : run.first + i * run.stride);
    }
  });
  return places;
}

inline std::vector<Place> places_of(const NormalForm& form) {
  const RunTree tree(std::make_shared<const NormalForm>(form));
  return places_of(tree, 0, form.elements());
}

}  // namespace reshardfs::modelmap::testing
