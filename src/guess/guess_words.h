// SPDX-License-Identifier: Apache-2.0
/// Slices, and what they may be parts of, in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "guess/guess.h"
#include "guess/guess_shapes.h"
#include "strategy/derive/derive_cuts.h"

namespace reshardfs {

std::size_t distinct_contents(const std::vector<std::uint32_t>& contents);

/// "equal on all 8 ranks", "4 different ones on 8 ranks"
std::string contents_words(const SlicedParameter& parameter);

/// "slices of [64, 64]"
std::string slice_words(const SlicedParameter& parameter);

/// "slices of [64, 64], 4 different ones on 8 ranks"
std::string slice_and_content_words(const SlicedParameter& parameter);

/// "whole", "1/4 of [256, 64] along dimension 0"
std::string reading_words(const Reading& reading);

/// "1/4 of [256, 64] along dimension 0 (slices of [64, 64], 4 different ones on 8 ranks)"
std::string reading_with_slices(const Reading& reading, const SlicedParameter& parameter);

/// "ranks 0, 1, 2, 3 of a stage hold parts 0, 1, 0, 1"
std::string order_words(const Reading& reading);

/// What shows that one of several readings is right: "settled by the shape [256, 64] in
/// config.json".
std::string settling_words(const std::vector<Reading>& readings, std::size_t number);

/// How the code of a known network cuts such parameters: "along dimension 0 over one axis".
std::string way_words(const KnownParameter& known);

/// The ranks along an axis: "0, 2, 4, 6".
std::string axis_words(const DeviceAxis& axis);

/// "8 of 9 parameters proven, 1 one of several, 0 open"
std::string summary_words(const Guess& guess);

}  // namespace reshardfs
