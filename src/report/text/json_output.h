// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "base/json/json_writer.h"
#include "checkpoint/completeness.h"

namespace reshardfs {

/// An object, as --json prints it: ASCII alone, as names from files may be no UTF-8 or turn a
/// terminal's text.
std::string json_text(const std::function<void(JsonWriter&)>& write_members);
/// Prints it.
void write_json(const std::function<void(JsonWriter&)>& write_members);

/// The "completeness" of `verify --json` and `inspect --json`, as a member.
void write_completeness(JsonWriter& json, const Completeness& completeness);

}  // namespace reshardfs
