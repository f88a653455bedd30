// SPDX-License-Identifier: Apache-2.0
/// Model types of which it is known how the numbers of a configuration show in names and shapes.
#pragma once

#include <string_view>

namespace reshardfs {

struct LayerRule {
  /// As config.json has them (`model_type`), each between blanks.
  std::string_view types;
  /// The word that stands before the number of a layer.
  std::string_view word;
  /// Embedding, output and norms have the sizes of the vocabulary and of the hidden states.
  bool has_sizes = false;
  /// So have projections of the attention and of dense layers those of the heads.
  bool has_heads = false;
  /// Layers of one kind have the same tensors.
  bool is_even = false;
};

/// nullptr if the type is not in the table.
const LayerRule* layer_rule(std::string_view model_type);

/// The rule of files that state no type: params.json of Meta's releases, Megatron-LM's arguments.
const LayerRule& untyped_layer_rule();

}  // namespace reshardfs
