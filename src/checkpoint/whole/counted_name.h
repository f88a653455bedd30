// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reshardfs {

/// "model-00001-of-00002.safetensors": the name of one of several files that says how many there
/// are, as Hugging Face and others write them. Files are counted from 1 on, or from 0.
struct CountedName {
  std::string before{};  ///< "model-"
  std::string number{};  ///< "00001": with the zeros that fill it up
  std::string after{};   ///< "-of-00002.safetensors"
  std::int64_t index = 0;
  std::int64_t count = 0;  ///< at least 1

  /// The name of another file of the same whole.
  std::string with_index(std::int64_t other) const;
};

/// Nothing if the name counts nothing, or its number exceeds its count.
std::optional<CountedName> parse_counted_name(std::string_view file_name);

}  // namespace reshardfs
