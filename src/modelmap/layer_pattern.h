// SPDX-License-Identifier: Apache-2.0
/// The layers of a HybridModel of Megatron-Core, one symbol each: "*-*-" for attention, MLP,
/// attention, MLP. Source: megatron/core/models/hybrid/hybrid_layer_allocation.py of Megatron-Core
/// 0.19.2 and 0.20; W, C and H are those of Megatron-Bridge 0.7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs::modelmap {

/// Under this name --map-var, training arguments and config.json have the pattern.
inline constexpr const char* kLayerPattern = "hybrid_layer_pattern";
/// The name that the argument had before, and has in config.json.
inline constexpr const char* kOldLayerPattern = "hybrid_override_pattern";
/// In config.json, the pattern of one depth of multi-token prediction.
inline constexpr const char* kNextTokenPattern = "mtp_hybrid_override_pattern";

/// Lists of the types of layers, which transformers writes instead.
inline constexpr const char* kLayerTypes = "layers_block_type";
inline constexpr const char* kNextTokenTypes = "mtp_layers_block_type";

inline constexpr std::string_view kLayerSymbols = "*+DGWCHM-E";
inline constexpr std::string_view kAttentionSymbols = "*+DGWCH";
inline constexpr std::string_view kMlpSymbols = "-E";

/// In front of symbols: those of one depth of multi-token prediction are meant.
inline constexpr char kNextTokenMark = '/';

/// The first character that is no symbol of a layer.
std::optional<char> unknown_symbol(std::string_view symbols);

class LayerPattern {
 public:
  LayerPattern() = default;
  /// "M*-|M*-/*-/*-": '|' cuts segments of pipelines, and each '/' begins the layers of one depth
  /// of multi-token prediction.
  /// @throws Error kBadInput that shows the text and says what is wrong with it.
  static LayerPattern parse(std::string_view text);

  /// As it was given.
  const std::string& text() const noexcept { return text_; }
  /// The symbols of the decoder: as many as it has layers.
  const std::string& decoder() const noexcept { return decoder_; }
  /// The symbols of one depth of multi-token prediction; empty: there is none.
  const std::string& next_tokens() const noexcept { return next_tokens_; }
  /// How many layers each segment has; some have none.
  const std::vector<std::int64_t>& segments() const noexcept { return segments_; }

  /// Behind the layers of the decoder, those of one depth of multi-token prediction.
  std::string with_next_tokens() const { return decoder_ + next_tokens_; }
  /// The numbers of the decoder's layers whose symbol is one of these, ascending; with
  /// kNextTokenMark in front, of the layers of one depth of multi-token prediction.
  std::vector<std::int64_t> positions(std::string_view symbols) const;

 private:
  std::string text_{};
  std::string decoder_{};
  std::string next_tokens_{};
  std::vector<std::int64_t> segments_{};
};

/// A tensor's name, without a state's prefix, and its first dimension.
struct LayerTensor {
  std::string_view name{};
  std::optional<std::int64_t> rows{};
};

/// What names of Megatron-Core tell of the layers.
struct NamedLayers {
  /// The names of a HybridModel; false: those of a GPTModel, each of whose layers has an attention
  /// and an MLP, for which the pattern has two symbols in this order.
  bool is_hybrid = false;
  std::string decoder{};      ///< '?' for a layer of which names tell no symbol
  std::string next_tokens{};  ///< the same; empty: there are no such layers

  /// Of a GPTModel without the layers of multi-token prediction if names do not tell all of them.
  std::string text() const;
};

/// Nothing if no name has layers of a decoder as Megatron-Core has them, or if they are of several
/// forms.
std::optional<NamedLayers> layers_of_names(const std::vector<LayerTensor>& tensors);

/// What contradicts a pattern that is stated, in words that complete "the hybrid layer pattern
/// 'M*-' ..."; empty: nothing does.
std::string disagreement(const LayerPattern& stated, const NamedLayers& named);

}  // namespace reshardfs::modelmap
