// SPDX-License-Identifier: Apache-2.0
/// Slices, and what they may be parts of, in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strategy/guess.h"

namespace reshardfs {

std::size_t distinct_contents(const std::vector<std::uint32_t>& contents);

/// "equal on all 8 ranks", "4 different ones on 8 ranks"
std::string contents_words(const SlicedParameter& parameter);

/// "slices of [64, 64]"
std::string slice_words(const SlicedParameter& parameter);

/// "whole", "1/4 of [256, 64] along dimension 0"
std::string reading_words(const Reading& reading);

/// "1/4 of [256, 64] along dimension 0 (slices of [64, 64], 4 different ones on 8 ranks)"
std::string reading_with_slices(const Reading& reading, const SlicedParameter& parameter);

}  // namespace reshardfs
