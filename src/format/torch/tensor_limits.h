// SPDX-License-Identifier: Apache-2.0
/// What a tensor of PyTorch may have: more is a damaged file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reshardfs {

inline constexpr std::size_t kMostTorchDimensions = 64;
inline constexpr std::int64_t kMostTorchElements = 1LL << 62U;
/// A pickle of torch.save has some hundred bytes for each tensor, and is held several times over
/// while it is read.
inline constexpr std::uint64_t kMostSavedPickle = 64ULL << 20U;

}  // namespace reshardfs
