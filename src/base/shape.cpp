// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/shape.h"

#include "base/checked.h"

namespace reshardfs {

std::int64_t element_count(const Shape& shape) {
  // A zero anywhere makes the product zero, but must not hide an overflow of the others: dims are
  // multiplied again in other groupings later.
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) {
      throw Error(ErrorKind::kBadInput, "dimension " + std::to_string(dim) + " is negative");
    }
    if (dim == 0) {
      empty = true;
    } else {
      product = mul_or_throw(product, dim, "the number of elements");
    }
  }
  return empty ? 0 : product;
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (const std::int64_t dim : shape) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(dim);
  }
  return out + "]";
}

}  // namespace reshardfs
