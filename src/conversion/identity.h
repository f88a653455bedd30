// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "base/json/json_value.h"

namespace reshardfs {

/// What decides the bytes of a conversion's files: the source files, the contents of the strategy
/// files, the options, and the version of the program. Which ranks and views are shown is not part
/// of it, so that they may be exported one after another. A JSON object on one line.
///
/// Of a source file: its path, size, times and inode number, a sum of its index, and one of samples
/// of its bytes. The change time and the inode number betray that it was rewritten or replaced,
/// even where the modification time was set back; the samples, that a disk was restored or a clock
/// was wrong. Few bytes are read, so that it takes little time beside reading what was exported.
/// @param sources as of Conversion::source_files().
/// @throws Error kMissing or kIo if a file that the options name cannot be read, kChanged if a
///         source file is not the one any more that the conversion has opened.
std::string conversion_identity(const ConversionOptions& options,
                                const std::vector<ConversionSource>& sources);

/// The same for a mount that other processes may go on with: without the version of the program,
/// which may be another one's, and without samples, since the source files are those of this
/// machine. Reads the strategy files alone.
std::string mount_identity(const ConversionOptions& options,
                           const std::vector<ConversionSource>& sources);

/// The same for a mount of all steps: without their source files, which come and go.
std::string steps_identity(const ConversionOptions& options);

struct IdentityDifference {
  std::string what{};  ///< for a message
  std::string hint{};
};

/// What makes two of them different.
/// @param old nothing: it has none, or what it has is none.
IdentityDifference identity_difference(const std::optional<JsonValue>& old, const JsonValue& now);

}  // namespace reshardfs
