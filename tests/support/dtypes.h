// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "reshardfs/dtype.h"

namespace reshardfs::test {

/// All types whose elements are real numbers.
inline constexpr std::array kNumberTypes{
    DType::kBool,       DType::kInt4,           DType::kInt8,          DType::kUInt8,
    DType::kInt16,      DType::kUInt16,         DType::kInt32,         DType::kUInt32,
    DType::kInt64,      DType::kUInt64,         DType::kFloat16,       DType::kBFloat16,
    DType::kFloat32,    DType::kFloat64,        DType::kFloat8E5M2,    DType::kFloat8E4M3,
    DType::kFloat8E8M0, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2FNUZ};

}  // namespace reshardfs::test
