// SPDX-License-Identifier: Apache-2.0
#include "base/content_size.h"

#include <string>

#include "reshardfs/error.h"

#include "base/checked.h"

namespace reshardfs {

std::int64_t content_size(const Shape& shape, DType dtype, const char* what) {
  const std::int64_t elements = element_count(shape);
  const std::int64_t per_unit = elements_per_unit(dtype);
  if (elements % per_unit != 0) {
    throw Error(ErrorKind::kBadInput, std::to_string(elements) + " elements of " +
                                          std::string(mindspore_name(dtype)) +
                                          " do not fill whole bytes; their number must be a "
                                          "multiple of " +
                                          std::to_string(per_unit));
  }
  return mul_or_throw(elements / per_unit, element_size(dtype), what);
}

std::uint64_t bytes_to_hold(const Shape& shape, DType dtype) noexcept {
  std::int64_t elements = 1;
  for (const std::int64_t length : shape) elements *= length;
  const std::int64_t per_unit = elements_per_unit(dtype);
  return static_cast<std::uint64_t>((elements + per_unit - 1) / per_unit * element_size(dtype));
}

}  // namespace reshardfs
