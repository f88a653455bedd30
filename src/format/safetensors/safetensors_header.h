// SPDX-License-Identifier: Apache-2.0
/// The JSON text of a safetensors header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/dtype.h"

#include "format/kept_entries.h"

namespace reshardfs::safetensors {

/// More than any model has; a hostile header of tiny entries must not fill the memory.
inline constexpr std::size_t kMaxEntries = 2'000'000;
inline constexpr std::size_t kMaxDims = 16;

/// As the header states it.
struct ParsedTensor {
  std::string_view name;          ///< in the header's text, or in ParsedHeader::unescaped
  DType dtype = DType::kFloat32;  ///< where the type is known
  bool is_known = true;           ///< whether it is
  KeptShape shape;
  // Bytes from the end of the header. Not checked in any way.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct ParsedHeader {
  std::vector<ParsedTensor> tensors;  ///< in the header's order
  std::deque<std::string> unescaped;  ///< names that are written with escapes
  /// The types that are not known, by the tensors' names.
  std::map<std::string, std::string> unknown_types;
  std::map<std::string, std::string> metadata;
};

/// Walks the text once and keeps nothing of it but what it states.
/// @param text everything after the 8 bytes of length. Names refer to it.
/// @throws Error kBadInput without the file, with the parameter if it is known, else with the
///         offset in the file.
ParsedHeader parse_header(std::string_view text);

/// The texts of `__metadata__` alone; of the tensors, no more is looked at than JSON demands.
/// @param text as of parse_header(), or the beginning of it.
/// @param is_whole whether it is all of it.
/// @return nothing if the text is a beginning that ends before the metadata does, or has other
///         members before it.
/// @throws Error as parse_header(), where the text is whole.
std::optional<std::map<std::string, std::string>> parse_metadata(std::string_view text,
                                                                 bool is_whole);

}  // namespace reshardfs::safetensors
