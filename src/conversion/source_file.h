// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reshardfs/conversion_options.h"

#include "base/json/json_value.h"

namespace reshardfs {

/// A JSON object that identifies a source file and its contents: see conversion_identity().
/// @param shown_path the path to state in the object.
/// @throws Error kChanged if the path no longer leads to the file that the conversion opened, or
///         the file has changed; kMissing or kIo.
std::string source_file_identity(const ConversionSource& file, const std::string& shown_path);

/// The same without examining the file, and without samples of its bytes.
std::string source_file_facts(const ConversionSource& file, const std::string& shown_path);

/// The difference between two of these objects in words ("has another size"); empty if there is
/// none.
std::string source_file_difference(const JsonValue& old, const JsonValue& now);

/// Whether no difference shows that the contents differ, so that one file may be a copy of the
/// other.
bool may_be_a_copy(const JsonValue& old, const JsonValue& now);

}  // namespace reshardfs
