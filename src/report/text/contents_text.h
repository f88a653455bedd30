// SPDX-License-Identifier: Apache-2.0
/// What a checkpoint holds, parameter by parameter.
#pragma once

#include <string>
#include <unordered_map>

#include "reshardfs/checkpoint.h"
#include "reshardfs/shape.h"

#include "base/json/json_writer.h"

namespace reshardfs {

/// Of whole parameters, by name; of one without a layout, nothing.
using FullShapes = std::unordered_map<std::string, Shape>;

struct ContentsStyle {
  const FullShapes* full = nullptr;  ///< nullptr: they are not known, or the contents are whole
  const char* shape_heading = "SLICE SHAPE";  ///< what the contents' own shapes are called
};

/// The ranks that hold it: "0-7".
std::string held_by(const CheckpointParameter& parameter);

/// A line for each parameter.
std::string listed_parameters(const CheckpointContents& contents, const ContentsStyle& style);

/// The objects that are not tensors; empty if there are none.
std::string byte_items_text(const CheckpointContents& contents);

/// All of that as members, as `inspect --json` prints it.
void write_contents(JsonWriter& json, const CheckpointContents& contents, const FullShapes* full);

}  // namespace reshardfs
