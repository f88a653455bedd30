// SPDX-License-Identifier: Apache-2.0
/// Layers, by the numbers in names of tensors, and model types of which it is known how the numbers
/// of a configuration show in names and shapes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reshardfs {

struct LayerOfName {
  std::string_view block{};  ///< the name before the number: "model.layers"
  std::int64_t number = 0;
  std::string_view rest{};  ///< the name behind the number: "mlp.up_proj.weight"
};

/// The first number that stands behind a word for layers.
std::optional<LayerOfName> layer_of(std::string_view name);

/// Whether a name is of a part with numbers of its own: towers for images and sound, layers for
/// multi-token prediction, drafts.
bool is_of_other_part(std::string_view name);

/// A module's weight or bias, however it is quantized. Other tensors are none: scales, for example.
using ModulePart = std::pair<std::string_view, bool>;  ///< the module, and whether it is the bias
std::optional<ModulePart> module_part(std::string_view rest);

/// The layers behind one name.
class LayerStack {
 public:
  /// In ascending order of the numbers.
  using Layers = std::map<std::int64_t, std::vector<std::string_view>>;

  void add(std::int64_t number, std::string_view rest) { layers_[number].push_back(rest); }

  const Layers& layers() const noexcept { return layers_; }
  /// The numbers below `count` that no name has.
  std::vector<std::int64_t> lacking(std::int64_t count) const;
  /// The numbers that no name has, between those that names have.
  std::vector<std::int64_t> gaps() const;

  /// Layer `number` has not what as many layers of its kind have, or more.
  struct Uneven {
    std::int64_t number = 0;
    std::int64_t like = 0;  ///< a layer that has it
    bool is_rare = false;   ///< more layers have it than lack it
    std::vector<std::string_view> rest{};
  };
  /// @param kinds of the layers, in the order of their numbers; layers of different kinds are not
  ///        compared. Empty: all are.
  /// @param has_biases whether biases count.
  std::vector<Uneven> uneven(const std::vector<std::string>& kinds, bool has_biases) const;

 private:
  Layers layers_{};
};

/// By the names before the numbers. The names must outlive it.
using LayerStacks = std::map<std::string_view, LayerStack>;

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

/// "layer 2", "layers 2 and 3", "layers 2-5".
std::string layers_words(const std::vector<std::int64_t>& numbers);

}  // namespace reshardfs
