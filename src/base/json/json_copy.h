// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/json/json_reader.h"
#include "base/json/json_writer.h"

namespace reshardfs {

/// Called for each member of each object that is copied, before its key is written; the reader
/// stands at the member's value.
/// @return true: it has written the member, or left it out. false: the member is to be copied.
using JsonEdit = std::function<bool(JsonReader& reader, JsonWriter& writer)>;

/// Writes the value that the reader stands at. Numbers stay as they are written.
/// @param edit may be empty: then all is copied.
/// @throws Error as the members of the reader and of the writer.
void copy_json(JsonReader& reader, JsonWriter& writer, const JsonEdit& edit = {});

}  // namespace reshardfs
