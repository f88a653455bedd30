// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion_options.h"

#include "base/json/json_value.h"

namespace reshardfs {

/// Everything that decides the bytes of a conversion's files, as a JSON object on one line: the
/// source files, the contents of the strategy files, the options, and the version of the program.
/// The choice of ranks and views is not included, so that they can be exported one after another.
///
/// A source file is identified by its path, size, times and inode number, a checksum of its index,
/// and a checksum of samples of its bytes. The change time and the inode number show that it was
/// rewritten or replaced, even if the modification time was set back; the samples show that a disk
/// was restored or a clock was wrong. Reading the samples takes little time compared with an
/// export.
/// @param sources as of Conversion::source_files().
/// @throws Error kMissing or kIo if a file that the options name cannot be read, kChanged if a
///         source file is no longer the one that the conversion opened.
std::string conversion_identity(const ConversionOptions& options,
                                const std::vector<ConversionSource>& sources);

/// The same for a mount that another process may take over: without the program's version, which
/// may differ, and without samples, because both processes read the source files on this machine.
/// Reads only the strategy files.
std::string mount_identity(const ConversionOptions& options,
                           const std::vector<ConversionSource>& sources);

/// The same for a mount of all steps: without source files, because steps appear and disappear.
std::string steps_identity(const ConversionOptions& options);

struct IdentityDifference {
  std::string what{};  ///< for a message
  std::string hint{};
};

/// The first difference between two identities.
/// @param old nullopt: there is no valid identity.
IdentityDifference identity_difference(const std::optional<JsonValue>& old, const JsonValue& now);

}  // namespace reshardfs
