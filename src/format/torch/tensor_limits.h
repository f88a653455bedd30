// SPDX-License-Identifier: Apache-2.0
/// What a tensor of PyTorch may have: more is a damaged file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reshardfs {

inline constexpr std::size_t kMostTorchDimensions = 64;
inline constexpr std::int64_t kMostTorchElements = 1LL << 62U;

}  // namespace reshardfs
