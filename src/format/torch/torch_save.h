// SPDX-License-Identifier: Apache-2.0
/// What a file of torch.save has, by name. A name is the path of keys to a value, joined by dots;
/// the elements of lists and tuples have their positions.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "format/listed_items.h"
#include "format/torch/dtensor.h"
#include "format/torch/torch_archive.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// A value that is no tensor, and has none in it.
struct SavedValue {
  std::string name;
  std::string what;  ///< "a number", "mylib.Config"
};

/// What is in a file beside its tensors.
struct SavedBeside {
  std::vector<SavedValue> values{};
  /// Of the keys at the top, those under which programs usually keep the model's parameters.
  std::vector<std::string> wrappers{};
};

struct TorchSave {
  std::vector<TorchTensor> tensors;  ///< in the order of the values
  /// The places of those that are parts of DTensors, by their numbers in `tensors`.
  std::unordered_map<std::size_t, DTensorPlace> places;
  /// Tensors that cannot be shown.
  std::vector<RefusedTensor> refused;
  SavedBeside beside;
};

/// What to do with tensors of which the file has one process's part.
enum class DTensors : std::uint8_t {
  kRefused,
  kPlaced,  ///< take the part, with its place in the full tensor
};

/// @throws Error kBadInput if tensors are in values that contain themselves, or have too many
/// names; kUnsupported if
///         there is no tensor.
TorchSave read_torch_save(const TorchArchive& archive, DTensors dtensors = DTensors::kRefused);

/// The same, of a name that a single tensor in a file has.
inline constexpr const char* kLoneTensor = "tensor";

}  // namespace reshardfs
