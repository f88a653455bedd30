// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion_options.h"

#include "base/json/json_value.h"
#include "storage/inputs.h"

namespace reshardfs {

/// Everything that decides the bytes of a conversion's tensors, as a JSON object on one line: the
/// source files, the files that were read beside them (inputs.h), the options, and the version of
/// the program. The choice of ranks and views is not included, so that they can be exported one
/// after another.
///
/// A source file is identified by its path, size, times and inode number, a checksum of its index,
/// and a checksum of samples of its bytes. The change time and the inode number show that it was
/// rewritten or replaced, even if the modification time was set back; the samples show that a disk
/// was restored or a clock was wrong. Reading the samples takes little time compared with an
/// export.
/// @param sources as of Conversion::source_files().
/// @param inputs as of ConversionAccess::inputs().
/// @throws Error kMissing or kIo if a source file cannot be read, kChanged if it is no longer the
///         one that the conversion opened.
std::string conversion_identity(const ConversionOptions& options,
                                const std::vector<ConversionSource>& sources,
                                const std::vector<Input>& inputs);

/// The same for a mount that another process may take over: with the files that only views have
/// read, without the program's version, which may differ, and without samples, because both
/// processes read the source files on this machine. Reads no file.
/// @param companions as of ConversionAccess::companions().
std::string mount_identity(const ConversionOptions& options,
                           const std::vector<ConversionSource>& sources,
                           const std::vector<Input>& inputs, const std::vector<Input>& companions);

/// The same for a mount of all steps: without source files, because steps appear and disappear.
/// @param inputs as of inputs_of_options().
std::string steps_identity(const ConversionOptions& options, const std::vector<Input>& inputs);

/// Whether two of mount_identity() differ, but only in files that views alone have read.
bool differ_in_companions_alone(const JsonValue& old, const JsonValue& now);

struct IdentityDifference {
  std::string what{};  ///< for a message
  std::string hint{};
};

/// The first difference between two identities.
/// @param old nullopt: there is no valid identity.
IdentityDifference identity_difference(const std::optional<JsonValue>& old, const JsonValue& now);

}  // namespace reshardfs
