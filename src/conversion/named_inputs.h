// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reshardfs/conversion_options.h"

#include "base/json/json_value.h"
#include "base/json/json_writer.h"
#include "storage/inputs.h"

namespace reshardfs {

/// Writes a list of files as a member of a JSON object. Each has a name that is the same on every
/// machine: its path below the source, or the option that names it.
void write_inputs(JsonWriter& json, const char* key, const ConversionOptions& options,
                  const std::vector<Input>& inputs);

/// The first difference between two of these lists in words: "'config.json' has different
/// contents"; empty if there is none.
std::string difference_of_inputs(const JsonValue& old, const JsonValue& now);

/// The files that options name, with what maps read of the source. Opens no step.
/// @throws errors of StrategyInput, NameMap and ModelMaps.
std::vector<Input> inputs_of_options(const ConversionOptions& options);

}  // namespace reshardfs
