// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/model_shapes.h"

#include <algorithm>
#include <array>

#include "reshardfs/error.h"

#include "base/text/state_names.h"
#include "modelmap/variables.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMostConfigBytes = modelmap::kMaxConfigBytes;

/// V: vocabulary, H: hidden, A: heads * head_dim, G: key heads * head_dim, F: intermediate,
/// M: intermediate of an expert, E: experts, L: q_lora_rank, K: kv_lora_rank.
struct Row {
  std::string_view end;
  std::string_view dimensions;
};

/// Names end so, behind a dot or at their beginning.
constexpr std::array kRows = {
    Row{"embed_tokens.weight", "VH"},
    Row{"tok_embeddings.weight", "VH"},
    Row{"word_embeddings.weight", "VH"},
    Row{"wte.weight", "VH"},
    Row{"embed_in.weight", "VH"},
    Row{"embed_out.weight", "VH"},
    Row{"lm_head.weight", "VH"},
    Row{"model.output.weight", "VH"},
    Row{"self_attn.q_proj.weight", "AH"},
    Row{"self_attn.k_proj.weight", "GH"},
    Row{"self_attn.v_proj.weight", "GH"},
    Row{"self_attn.o_proj.weight", "HA"},
    Row{"self_attn.q_proj.bias", "A"},
    Row{"self_attn.k_proj.bias", "G"},
    Row{"self_attn.v_proj.bias", "G"},
    Row{"self_attn.q_a_proj.weight", "LH"},
    Row{"self_attn.q_a_layernorm.weight", "L"},
    Row{"self_attn.kv_a_layernorm.weight", "K"},
    Row{"attention.wq.weight", "AH"},
    Row{"attention.wk.weight", "GH"},
    Row{"attention.wv.weight", "GH"},
    Row{"attention.wo.weight", "HA"},
    Row{"mlp.gate_proj.weight", "FH"},
    Row{"mlp.up_proj.weight", "FH"},
    Row{"mlp.down_proj.weight", "HF"},
    Row{"mlp.gate_proj.bias", "F"},
    Row{"mlp.up_proj.bias", "F"},
    Row{"mlp.down_proj.bias", "H"},
    Row{"mlp.gate.weight", "EH"},
    Row{"input_layernorm.weight", "H"},
    Row{"post_attention_layernorm.weight", "H"},
    Row{"pre_feedforward_layernorm.weight", "H"},
    Row{"post_feedforward_layernorm.weight", "H"},
    Row{"attention_norm.weight", "H"},
    Row{"ffn_norm.weight", "H"},
    Row{"model.norm.weight", "H"},
};

/// Inside "mlp.experts.3.", and of a model's only expert layers.
constexpr std::array kExpertRows = {
    Row{"gate_proj.weight", "MH"},
    Row{"up_proj.weight", "MH"},
    Row{"down_proj.weight", "HM"},
};

bool ends_in(std::string_view name, std::string_view end) {
  if (name.size() < end.size()) return false;
  const std::size_t begin = name.size() - end.size();
  // Where most do not end so: what is compared first is cheap.
  return (begin == 0 || name[begin - 1] == '.') && name.substr(begin) == end;
}

template <typename Rows>
std::string_view dimensions_of(const Rows& rows, std::string_view name) {
  for (const Row& row : rows) {
    if (ends_in(name, row.end)) return row.dimensions;
  }
  return {};
}

/// Of parts of a model that have numbers of their own in config.json.
bool is_of_another_tower(std::string_view name) {
  constexpr std::array<std::string_view, 6> kTowers{"vision", "visual", "audio",
                                                    "image",  "speech", "encoder."};
  return std::any_of(kTowers.begin(), kTowers.end(), [&](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

class Numbers {
 public:
  explicit Numbers(const modelmap::ModelConfig& config) : config_(config) {}

  std::optional<std::int64_t> first_of(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
      const auto value = config_.find(key);
      if (value && *value > 0 && *value <= kMost) return value;
    }
    return std::nullopt;
  }

 private:
  /// So that the product of two is a number in 64 bits.
  static constexpr std::int64_t kMost = std::int64_t{1} << 31U;
  const modelmap::ModelConfig& config_;
};

}  // namespace

ModelShapes::ModelShapes(const std::string& text) {
  modelmap::ModelConfig config;
  try {
    config = modelmap::ModelConfig::parse(text);
  } catch (const Error&) {
    return;  // whoever needs it says what is wrong with it
  }
  const Numbers numbers(config);
  const auto put = [&](const char* letter, std::optional<std::int64_t> value) {
    if (value) numbers_[letter] = *value;
  };
  const auto hidden = numbers.first_of({"hidden_size", "n_embd", "d_model", "dim"});
  const auto heads = numbers.first_of({"num_attention_heads", "n_head", "n_heads", "num_heads"});
  const auto key_heads = numbers.first_of({"num_key_value_heads", "n_kv_heads"});
  auto head_dim = numbers.first_of({"head_dim"});
  if (!head_dim && hidden && heads && *hidden % *heads == 0) head_dim = *hidden / *heads;
  vocabulary_ = numbers.first_of({"vocab_size"});
  put("V", vocabulary_);
  put("H", hidden);
  put("F", numbers.first_of({"intermediate_size", "ffn_hidden_size", "n_inner"}));
  put("M", numbers.first_of({"moe_intermediate_size"}));
  put("E", numbers.first_of({"n_routed_experts", "num_experts", "num_local_experts"}));
  put("L", numbers.first_of({"q_lora_rank"}));
  put("K", numbers.first_of({"kv_lora_rank"}));
  // Latent attention has projections of other shapes under the same names.
  if (head_dim && !numbers_.contains("K")) {
    if (heads) put("A", *heads * *head_dim);
    if (key_heads) put("G", *key_heads * *head_dim);
  }
  if (const auto tied = config.find("tie_word_embeddings")) tied_ = *tied != 0;
}

ModelShapes ModelShapes::read(const std::filesystem::path& file, const SourceTreePtr& tree) {
  if (file.empty() || path_kind(file, tree) != PathKind::kOther) return {};
  try {
    return ModelShapes(read_small_file(file, kMostConfigBytes, unrecorded(tree)));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBadInput) return {};
    throw;
  }
}

std::optional<StatedShape> ModelShapes::find(const std::string& name) const {
  const std::string weight = weight_name_of(name);
  if (is_of_another_tower(weight)) return std::nullopt;
  std::string_view dimensions = dimensions_of(kRows, weight);
  if (weight == "output.weight") dimensions = "VH";
  if (dimensions.empty() && weight.find("mlp.experts.") != std::string::npos) {
    dimensions = dimensions_of(kExpertRows, weight);
  }
  if (dimensions.empty()) return std::nullopt;
  StatedShape stated;
  stated.may_have_more_rows = dimensions.front() == 'V';
  for (const char letter : dimensions) {
    const auto number = numbers_.find(std::string_view(&letter, 1));
    // The rows of an embedding are told by the vocabulary alone.
    if (number == numbers_.end() && stated.may_have_more_rows && letter == 'H') {
      stated.shape.push_back(-1);
      continue;
    }
    if (number == numbers_.end()) return std::nullopt;
    stated.shape.push_back(number->second);
  }
  if (stated.may_have_more_rows) {
    stated.rows = "a vocabulary of " + std::to_string(stated.shape.front());
  }
  return stated;
}

bool has_row_for_each_word(std::string_view name) {
  return name == "output.weight" || dimensions_of(kRows, name) == "VH";
}

ShapeVerdict judge_extent(const Shape& found, const std::optional<StatedShape>& stated) {
  if (!stated || found.size() != stated->shape.size()) return ShapeVerdict::kUnknown;
  std::size_t smaller = 0;
  for (std::size_t d = 0; d < found.size(); ++d) {
    const std::int64_t wanted = stated->shape[d];
    if (wanted < 0) continue;
    const bool fits =
        found[d] == wanted || (d == 0 && stated->may_have_more_rows && found[d] > wanted);
    if (fits) continue;
    if (found[d] > wanted) return ShapeVerdict::kUnknown;
    ++smaller;
  }
  if (smaller == 1) return ShapeVerdict::kShort;
  return smaller == 0 ? ShapeVerdict::kFits : ShapeVerdict::kUnknown;
}

std::string short_words(const Shape& found, const StatedShape& stated, const std::string& pieces) {
  const bool rows = !stated.rows.empty() && found.front() < stated.shape.front();
  if (rows) {
    return "has " + std::to_string(found.front()) + " rows in " + pieces +
           ", but config.json states " + stated.rows;
  }
  return "is " + to_string(found) + " in " + pieces + ", but by config.json it should be " +
         to_string(stated.shape);
}

}  // namespace reshardfs
