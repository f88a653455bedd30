// SPDX-License-Identifier: Apache-2.0
/// What a file is that is no checkpoint file, though it has the name of one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "storage/byte_source.h"

namespace reshardfs {

struct ForeignContent {
  std::string_view what;    ///< completes "FILE is ..."
  std::string_view advice;  ///< what to do
};

/// @param begin the file's first bytes.
std::optional<ForeignContent> foreign_content(std::string_view begin);
/// The same of a file; nothing if it cannot be read.
std::optional<ForeignContent> foreign_content(const ByteSource& source) noexcept;

}  // namespace reshardfs
