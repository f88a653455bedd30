// SPDX-License-Identifier: Apache-2.0
/// What a mount shows, for the person who made it.
#pragma once

#include <string>

#include "reshardfs/conversion.h"

namespace reshardfs {

/// Behind the maps that hf/ needs.
inline constexpr const char* kAndModelConfig =
    ", and --model-config DIR with the model's config.json";

/// "merged, rank_{0..3}, strategy, unified; 4 ranks, 119 parameters", or of ranks "2 of 4 ranks".
std::string contents_words(const Conversion& conversion, const ConversionOptions& options);

/// "--cast converts 118 of 119 parameters"; empty without the option.
std::string cast_words(const Conversion& conversion, const ConversionOptions& options);

/// Which options would add hf/, where the names are those of another family that an installed map
/// turns into Hugging Face's. Empty if hf/ is there, if the options choose names or views, or if no
/// map is known.
std::string way_to_hugging_face(const Conversion& conversion, const ConversionOptions& options);

}  // namespace reshardfs
