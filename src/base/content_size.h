// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

namespace reshardfs {

/// Bytes of a tensor's elements.
/// @param what is counted, for the message: "the content's size".
/// @throws Error kBadInput beyond 63 bits, and if packed elements do not fill whole bytes.
std::int64_t content_size(const Shape& shape, DType dtype, const char* what);

/// The same of a part of a tensor that can be counted: an incomplete last byte counts as one.
std::uint64_t bytes_to_hold(const Shape& shape, DType dtype) noexcept;

}  // namespace reshardfs
