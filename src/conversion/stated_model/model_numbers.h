// SPDX-License-Identifier: Apache-2.0
/// The numbers that a model's own files state of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/known.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/whole/model_shapes.h"
#include "conversion/stated_model/layer_names.h"
#include "storage/source_tree.h"

namespace reshardfs {

struct ModelNumbers {
  std::string file{};  ///< for messages: "config.json"
  std::string type{};  ///< its `model_type`; empty: it states none
  /// nullptr: names and shapes of models of this type are not known.
  const LayerRule* rule = nullptr;
  Known<std::int64_t> layers{};      ///< with "config.json: num_hidden_layers"
  std::vector<std::string> kinds{};  ///< of the layers, where the file lists them
  ModelShapes shapes{};
  bool is_quantized = false;
  bool is_draft = false;  ///< a head for speculative decoding, with a vocabulary of its own
};

/// Of config.json or params.json. Nothing if there is no such file, or it states no numbers.
/// @param file empty: none.
/// @param tree opens the file; nullptr: by its path.
/// @param unread if given, is set to a warning where the file is no JSON object, or has a part of
///        one: then nothing is known.
/// @throws Error kIo.
std::optional<ModelNumbers> numbers_of_config(const std::filesystem::path& file,
                                              const SourceTreePtr& tree,
                                              std::string* unread = nullptr);

/// In the warning about a file that may be whole later.
inline constexpr std::string_view kEndsEarly = "ends before it is complete";

/// Of the YAML file of a training job of MindFormers; nothing if it states no numbers. What stands
/// there twice with different values is not known.
/// @param file empty: none.
/// @throws Error kIo; kBadInput if it is no YAML.
std::optional<ModelNumbers> numbers_of_training(const std::filesystem::path& file,
                                                const SourceTreePtr& tree);

/// Of the arguments that Megatron-LM saves beside the tensors; nothing if there are none.
std::optional<ModelNumbers> numbers_of_arguments(const CheckpointSet& set);

}  // namespace reshardfs
