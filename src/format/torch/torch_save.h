// SPDX-License-Identifier: Apache-2.0
/// What a file of torch.save has, by name. A name is the path of keys to a value, joined by dots;
/// the elements of lists and tuples have their positions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
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
  bool is_lone = false;  ///< the file is one tensor, which is called kLoneTensor
};

/// What to do with tensors of which the file has one process's part.
enum class DTensors : std::uint8_t {
  kRefused,
  kPlaced,  ///< take the part, with its place in the full tensor
};

struct TorchSaveRules {
  DTensors dtensors = DTensors::kRefused;
  bool may_lack_tensors = false;
  /// Throws for a part that is not what others state; the reason is then that of a tensor that
  /// cannot be shown. Empty: unknown.
  std::function<void(const std::string& name, const DTensorPart& part)> check_part{};
};

/// @throws Error kBadInput if tensors are in values that contain themselves, or have too many
///         names; kUnsupported if there is no tensor, and there must be one.
TorchSave read_torch_save(const TorchArchive& archive, const TorchSaveRules& rules);
inline TorchSave read_torch_save(const TorchArchive& archive,
                                 DTensors dtensors = DTensors::kRefused) {
  TorchSaveRules rules;
  rules.dtensors = dtensors;
  return read_torch_save(archive, rules);
}

/// Whether programs usually keep the model's parameters under this key.
bool is_model_key(std::string_view key) noexcept;

/// The same, of a name that a single tensor in a file has.
inline constexpr const char* kLoneTensor = "tensor";

}  // namespace reshardfs
