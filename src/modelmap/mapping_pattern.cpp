// SPDX-License-Identifier: Apache-2.0
/// The pattern of a HybridModel's layers: as it is stated, or as the source's names tell it.
#include <utility>

#include "modelmap/mapping_work.h"

namespace reshardfs::modelmap {
namespace {

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
  return std::nullopt;
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

bool uses_pattern(const ModelMap& map) {
  return map.mentioned_names().contains(kLayerPattern);
}

}  // namespace

Known<LayerPattern> pattern_of(const ModelMap& map, const MapOptions& options,
                               const std::vector<SourceTensor>& tensors, Direction direction) {
  if (!uses_pattern(map)) return {};
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
  if (!uses_pattern(map)) return variables;
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
