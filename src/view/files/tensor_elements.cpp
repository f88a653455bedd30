// SPDX-License-Identifier: Apache-2.0
#include "view/files/tensor_elements.h"

#include <cstddef>
#include <numeric>

namespace reshardfs {

std::optional<std::uint64_t> place_of_box(const ShownElements& view, const Shape& begin,
                                          const Shape& sizes) {
  const Shape& shape = view.shape();
  std::int64_t first = 0;
  // Before the last dimension of several rows that is cut, each one has a single index.
  bool is_cut = false;
  std::int64_t elements = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (is_cut && sizes[d] > 1) return std::nullopt;
    is_cut = is_cut || sizes[d] < shape[d];
    first += begin[d] * elements;
    elements *= shape[d];
  }
  if (first == 0) return 0;
  // Of packed elements, several are one byte, or several bytes.
  const std::uint64_t units = std::gcd(view.size(), static_cast<std::uint64_t>(elements));
  return static_cast<std::uint64_t>(first) / (static_cast<std::uint64_t>(elements) / units) *
         (view.size() / units);
}

}  // namespace reshardfs
