// SPDX-License-Identifier: Apache-2.0
/// What a file is, by its first bytes: of one that is no checkpoint file, though it has the name of
/// one, and whether another is one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "storage/byte_source.h"

namespace reshardfs {

/// Advice for what is made from a model, and does not lead back to it.
inline constexpr std::string_view kNameItsModel =
    "name the model that it was made from, as safetensors";

struct ForeignContent {
  std::string_view what;    ///< completes "FILE is ..."
  std::string_view advice;  ///< what to do
  /// Whether another program keeps a model or tensors in such files: it may be sound.
  bool is_model = false;
};

/// @param begin the file's first bytes; of fewer than 512 some kinds are not told.
std::optional<ForeignContent> foreign_content(std::string_view begin);
/// The same of a file; nothing if it cannot be read.
std::optional<ForeignContent> foreign_content(const ByteSource& source) noexcept;

/// Whether a file begins with printable characters of ASCII or UTF-8; false if it cannot be read.
bool is_text_content(const ByteSource& source) noexcept;

/// Whether bytes are the beginning of a checkpoint file of any format, or of an encrypted one.
/// @param begin the file's first bytes; fewer than 512 only if it has no more.
bool is_checkpoint_content(std::string_view begin);
/// The same of a file; false if it cannot be read.
bool is_checkpoint_content(const ByteSource& source) noexcept;

}  // namespace reshardfs
