// SPDX-License-Identifier: Apache-2.0
/// The pattern of a HybridModel's layers: as it is stated, or as the source's names tell it.
#include <algorithm>
#include <array>
#include <utility>

#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {
namespace {

/// A list of types of layers as a pattern; nothing without the list, or with a type of another
/// kind.
std::optional<std::string> pattern_in_list(const ModelConfig& config, const char* key) {
  constexpr std::array<std::pair<std::string_view, char>, 6> kTypes{{{"linear_attention", 'M'},
                                                                     {"mamba", 'M'},
                                                                     {"full_attention", '*'},
                                                                     {"attention", '*'},
                                                                     {"mlp", '-'},
                                                                     {"moe", 'E'}}};
  const ModelConfig::List* types = config.find_list(key);
  if (types == nullptr) return std::nullopt;
  std::string pattern;
  for (const ModelConfig::Element& type : *types) {
    const auto* const found = std::find_if(
        kTypes.begin(), kTypes.end(), [&](const auto& known) { return known.first == type.text; });
    if (found == kTypes.end()) return std::nullopt;
    pattern += found->second;
  }
  return pattern;
}

std::optional<StatedPattern> stated_pattern(const MapOptions& options) {
  if (options.pattern) return options.pattern;
  for (const char* key : {kLayerPattern, kOldLayerPattern}) {
    auto text = options.config.find_text(key);
    if (!text) continue;
    const auto next_tokens = options.config.find_text(kNextTokenPattern);
    if (next_tokens && !next_tokens->empty() && text->find('/') == std::string::npos) {
      *text += "/" + *next_tokens;
    }
    return StatedPattern{*std::move(text), options.config.file() + ": " + key};
  }
  auto pattern = pattern_in_list(options.config, kLayerTypes);
  if (!pattern || pattern->empty()) return std::nullopt;
  const auto next_tokens = pattern_in_list(options.config, kNextTokenTypes);
  // transformers writes the second list for models without multi-token prediction, too.
  const auto depths = options.config.find("num_nextn_predict_layers");
  if (next_tokens && depths && *depths > 0) {
    *pattern += "/" + *next_tokens;
  }
  return StatedPattern{*std::move(pattern), options.config.file() + ": " + kLayerTypes};
}

Known<LayerPattern> pattern_by_names(const std::optional<NamedLayers>& named) {
  using Value = Known<LayerPattern>;
  if (!named) return {};
  if (const std::size_t layer = named->decoder.find('?'); layer != std::string::npos) {
    return Value::unknown("no name of a tensor tells what layer " +
                          std::to_string(named->is_hybrid ? layer : layer / 2) + " is");
  }
  if (named->decoder.empty()) return Value::unknown("no tensor tells how many layers there are");
  return Value::derived(LayerPattern::parse(named->text()),
                        named->is_hybrid
                            ? "the names of the source's layers"
                            : "the names of the source, each layer as its attention and its MLP");
}

std::optional<NamedLayers> named_layers(const ModelMap& map,
                                        const std::vector<SourceTensor>& tensors,
                                        Direction direction) {
  const std::map<std::string, std::string> prefixes = state_prefixes(map, direction);
  std::vector<LayerTensor> names;
  names.reserve(tensors.size());
  for (const SourceTensor& tensor : tensors) {
    const std::string_view name = tensor.name;
    names.push_back({name.substr(state_prefix_of(prefixes, tensor.name).size()), {}});
    if (!tensor.shape.empty()) names.back().rows = tensor.shape.front();
  }
  return layers_of_names(names);
}

}  // namespace

Known<LayerPattern> pattern_of(const ModelMap& map, const MapOptions& options,
                               const std::vector<SourceTensor>& tensors, Direction direction) {
  if (!map.uses_layer_pattern) return {};
  const std::optional<NamedLayers> named = named_layers(map, tensors, direction);
  const auto stated = stated_pattern(options);
  if (!stated) return pattern_by_names(named);
  LayerPattern pattern = LayerPattern::parse(stated->text);
  const std::string why = named ? disagreement(pattern, *named) : std::string();
  if (!why.empty()) {
    throw Error(ErrorKind::kBadInput, "the hybrid layer pattern '" + printable(stated->text) +
                                          "' (" + printable(stated->origin) + ") " + why);
  }
  return Known<LayerPattern>::stated(std::move(pattern), stated->origin);
}

Variables variables_for_names(const ModelMap& map, const MapOptions& options,
                              const std::vector<SourceTensor>& tensors, Direction direction) {
  Variables variables = variables_of(map, options);
  if (!map.uses_layer_pattern) return variables;
  // What contradicts names will be told where the map is applied.
  variables.pattern = pattern_by_names(named_layers(map, tensors, direction));
  if (!variables.pattern) {
    try {
      variables.pattern = pattern_of(map, options, tensors, direction);
    } catch (const Error&) {
      // The same.
    }
  }
  return variables;
}

}  // namespace reshardfs::modelmap
