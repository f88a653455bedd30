// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reshardfs {

/// A name that states the number of files, as Hugging Face and others write it:
/// "model-00001-of-00002.safetensors". Files are counted from 1 or from 0.
struct CountedName {
  std::string before{};  ///< "model-"
  std::string number{};  ///< "00001", with leading zeros
  std::string after{};   ///< "-of-00002.safetensors"
  std::int64_t index = 0;
  std::int64_t count = 0;  ///< at least 1

  /// The name of another file of the same model.
  std::string with_index(std::int64_t other) const;
};

/// nullopt if the name does not state a number of files, or its own number exceeds it.
std::optional<CountedName> parse_counted_name(std::string_view file_name);

}  // namespace reshardfs
