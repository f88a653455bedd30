// SPDX-License-Identifier: Apache-2.0
/// The symbols of layers by the names of their tensors in checkpoints of Megatron-Core.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/text/numbers.h"
#include "modelmap/layer_pattern.h"

namespace reshardfs::modelmap {
namespace {

/// Far more than any model has.
constexpr std::int64_t kMostLayers = 65'536;

/// What follows a layer's number, and the symbol. Of several, the first one in the table counts.
struct SymbolName {
  std::string_view start;
  char symbol;
};
constexpr std::array kSymbolNames{
    SymbolName{"mixer.", 'M'},
    SymbolName{"self_attention.core_attention.indexer.", 'D'},
    SymbolName{"self_attention.linear_kv_down_proj.", '+'},
    SymbolName{"self_attention.linear_qkv_down_proj.", '+'},
    SymbolName{"self_attention.in_proj.", 'G'},
    SymbolName{"self_attention.linear_qkv.", '*'},
    SymbolName{"mlp.router.", 'E'},
    SymbolName{"mlp.linear_fc1.", '-'},
    // Of Hugging Face.
    SymbolName{"linear_attn.", 'G'},
    SymbolName{"self_attn.q_proj.", '*'},
    SymbolName{"mlp.gate.", 'E'},
    SymbolName{"block_sparse_moe.gate.", 'E'},
    SymbolName{"mlp.gate_proj.", '-'},
};

constexpr std::string_view kDecoder = "decoder.layers.";
constexpr std::string_view kHuggingFace = "model.layers.";
constexpr std::string_view kNextTokens = "mtp.layers.";
constexpr std::string_view kGptLayer = "transformer_layer.";
constexpr std::string_view kHybridLayers = "mtp_model_layer.layers.";

bool is_mixer(std::size_t row) {
  return kMlpSymbols.find(kSymbolNames[row].symbol) == std::string_view::npos;
}

/// The first row of the table that a layer's names have, of what mixes tokens and of MLPs.
struct LayerHalves {
  std::size_t mixer = kSymbolNames.size();
  std::size_t mlp = kSymbolNames.size();

  void add(std::string_view rest) {
    const auto* const row =
        std::find_if(kSymbolNames.begin(), kSymbolNames.end(),
                     [&](const SymbolName& name) { return rest.starts_with(name.start); });
    if (row == kSymbolNames.end()) return;
    const auto number = static_cast<std::size_t>(row - kSymbolNames.begin());
    std::size_t& half = is_mixer(number) ? mixer : mlp;
    half = std::min(half, number);
  }

  static char symbol_of(std::size_t row) {
    return row < kSymbolNames.size() ? kSymbolNames[row].symbol : '?';
  }
  bool has_both() const { return std::max(mixer, mlp) < kSymbolNames.size(); }
  std::string both() const { return {symbol_of(mixer), symbol_of(mlp)}; }
  char one() const { return symbol_of(std::min(mixer, mlp)); }
};

using Layers = std::map<std::int64_t, LayerHalves>;

/// Takes "12." from the beginning, if it is there.
std::optional<std::int64_t> take_layer(std::string_view& rest) {
  std::string_view behind = rest;
  const auto number = take_number<std::int64_t>(behind);
  if (!number || *number >= kMostLayers || !behind.starts_with('.')) return std::nullopt;
  rest = behind.substr(1);
  return number;
}

std::string pattern_of(const Layers& layers, bool is_hybrid) {
  std::string pattern;
  for (std::int64_t i = 0; !layers.empty() && i <= layers.rbegin()->first; ++i) {
    const auto found = layers.find(i);
    const LayerHalves halves = found == layers.end() ? LayerHalves() : found->second;
    pattern += is_hybrid ? std::string(1, halves.one()) : halves.both();
  }
  return pattern;
}

class LayerNamesReader {
 public:
  void add(const LayerTensor& tensor) {
    std::string_view rest = tensor.name;
    if (rest.starts_with("decoder.final_norm.")) has_hybrid_norm_ = true;
    if (rest.starts_with("decoder.final_layernorm.")) has_gpt_norm_ = true;
    if (rest.starts_with(kNextTokens)) return add_next_tokens(rest.substr(kNextTokens.size()));
    if (rest.starts_with(kHuggingFace)) {
      rest.remove_prefix(kHuggingFace.size());
      if (const auto layer = take_layer(rest)) {
        numbered_[*layer].add(rest);
        has_gpt_layers_ = true;
      }
      return;
    }
    if (!rest.starts_with(kDecoder)) return;
    rest.remove_prefix(kDecoder.size());
    if (const auto layer = take_layer(rest)) {
      numbered_[*layer].add(rest);
    } else if (!rest.empty() && !is_digit(rest[0])) {
      stacked_.add(rest);
      if (tensor.rows) stacked_layers_ = std::max(stacked_layers_, *tensor.rows);
      has_stacked_ = true;
    }
  }

  std::optional<NamedLayers> read() const {
    const bool is_gpt = has_stacked_ || has_gpt_norm_ || has_gpt_layers_ ||
                        std::any_of(numbered_.begin(), numbered_.end(),
                                    [](const auto& layer) { return layer.second.has_both(); });
    const bool is_hybrid = has_hybrid_norm_ || !is_gpt;
    if (numbered_.empty() == !has_stacked_ || (is_gpt && is_hybrid)) return std::nullopt;
    NamedLayers out;
    out.is_hybrid = is_hybrid;
    if (has_stacked_) {
      for (std::int64_t i = 0; i < std::min(stacked_layers_, kMostLayers); ++i) {
        out.decoder += stacked_.both();
      }
    } else {
      out.decoder = pattern_of(numbered_, is_hybrid);
    }
    out.next_tokens = is_hybrid ? pattern_of(hybrid_next_, true) : pattern_of(gpt_next_, false);
    return out;
  }

 private:
  /// All depths have the same layers.
  void add_next_tokens(std::string_view rest) {
    if (!take_layer(rest)) return;
    if (rest.starts_with(kGptLayer)) return gpt_next_[0].add(rest.substr(kGptLayer.size()));
    // Hugging Face has its own layer there.
    if (!rest.starts_with(kHybridLayers)) return gpt_next_[0].add(rest);
    rest.remove_prefix(kHybridLayers.size());
    if (const auto layer = take_layer(rest)) hybrid_next_[*layer].add(rest);
  }

  Layers numbered_;
  LayerHalves stacked_;
  bool has_stacked_ = false;
  std::int64_t stacked_layers_ = 0;
  Layers gpt_next_;
  Layers hybrid_next_;
  bool has_hybrid_norm_ = false;
  bool has_gpt_norm_ = false;
  bool has_gpt_layers_ = false;  ///< those of Hugging Face
};

}  // namespace

std::optional<NamedLayers> layers_of_names(const std::vector<LayerTensor>& tensors) {
  LayerNamesReader reader;
  for (const LayerTensor& tensor : tensors) reader.add(tensor);
  return reader.read();
}

}  // namespace reshardfs::modelmap
