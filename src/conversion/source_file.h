// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reshardfs/conversion.h"

#include "base/json/json_value.h"

namespace reshardfs {

/// What tells a source file from any other, and from itself with other contents: see
/// conversion_identity(). A JSON object.
/// @param shown_path its path, as the user may see it.
/// @throws Error kChanged if the path does not lead to the file that the conversion has opened, or
///         if that has changed since; kMissing or kIo.
std::string source_file_identity(const ConversionSource& file, const std::string& shown_path);

/// The same without a look at the file, and without samples of its bytes.
std::string source_file_facts(const ConversionSource& file, const std::string& shown_path);

/// In what two of them differ, in words: "has another size"; empty if they do not.
std::string source_file_difference(const JsonValue& old, const JsonValue& now);

/// Whether they differ in nothing that tells of their contents: one may be a copy of the other.
bool may_be_a_copy(const JsonValue& old, const JsonValue& now);

}  // namespace reshardfs
