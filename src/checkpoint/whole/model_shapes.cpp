// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/model_shapes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/state_names.h"
#include "base/text/text.h"
#include "modelmap/scope.h"
#include "modelmap/variables.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMostConfigBytes = modelmap::kMaxConfigBytes;
constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kBias = ".bias";

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
    Row{"tok_embeddings.embedding_weight", "VH"},
    Row{"word_embeddings.weight", "VH"},
    Row{"wte.weight", "VH"},
    Row{"embed_in.weight", "VH"},
    Row{"embed_out.weight", "VH"},
    Row{"lm_head.weight", "VH"},
    Row{"model.output.weight", "VH"},
    Row{"output_layer.weight", "VH"},
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
    Row{"model.norm_out.weight", "H"},
    Row{"final_layernorm.weight", "H"},
};

/// Inside "mlp.experts.3.", and of a model's only expert layers.
constexpr std::array kExpertRows = {
    Row{"gate_proj.weight", "MH"},
    Row{"up_proj.weight", "MH"},
    Row{"down_proj.weight", "HM"},
};

bool has_letter(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

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

using Number = Known<std::int64_t>;

class Numbers {
 public:
  explicit Numbers(const modelmap::ModelConfig& config)
      : variables_{.config = config}, scope_(variables_) {}

  /// As model maps know it.
  Number known(const char* name) const { return in_range(scope_.known(name)); }

  Number first_of(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
      const auto value = variables_.config.find(key);
      if (!value) continue;
      return in_range(Number::stated(*value, variables_.config.file() + ": " + key));
    }
    return {};
  }

 private:
  /// So that the product of two is a number in 64 bits.
  static constexpr std::int64_t kMost = std::int64_t{1} << 31U;

  static Number in_range(const Number& number) {
    return number && *number > 0 && *number <= kMost ? number : Number();
  }

  modelmap::Variables variables_;
  modelmap::Scope scope_;
};

Number product(const Number& a, const Number& b) {
  return Number::stated(*a * *b, a.origin() + "; " + b.origin());
}

/// Whether the sizes of heads that a configuration does not have follow from others.
bool has_defaults(const modelmap::ModelConfig& config) {
  return !config.model_type().empty() || config.file() == "params.json";
}

modelmap::ModelConfig config_in(const std::string& text) {
  try {
    return modelmap::ModelConfig::parse(text);
  } catch (const Error&) {
    return {};  // the code that needs it reports what is wrong
  }
}

}  // namespace

ModelShapes::ModelShapes(const std::string& text) : ModelShapes(config_in(text)) {}

ModelShapes::ModelShapes(const modelmap::ModelConfig& config) {
  if (!config.is_read()) return;
  const Numbers numbers(config);
  const auto put = [&](const char* letter, Number value) {
    if (value) numbers_[letter] = std::move(value);
  };
  const Number hidden = numbers.known("hidden");
  const Number heads = numbers.known("heads");
  Number groups = numbers.first_of({"num_key_value_heads", "num_query_groups", "n_kv_heads"});
  if (!groups && has_defaults(config)) groups = numbers.known("groups");
  Number head_dim = numbers.known("head_dim");
  if (!head_dim && !has_defaults(config) && hidden && heads && *hidden % *heads == 0) {
    head_dim = Number::derived(*hidden / *heads, hidden.origin());
  }
  put("V", numbers.known("vocab"));
  put("H", hidden);
  put("F", numbers.known("ffn"));
  put("M", numbers.first_of({"moe_intermediate_size"}));
  put("E", numbers.first_of({"n_routed_experts", "num_experts", "num_local_experts"}));
  put("L", numbers.first_of({"q_lora_rank"}));
  put("K", numbers.first_of({"kv_lora_rank"}));
  // Latent attention has projections of other shapes under the same names.
  if (head_dim && !numbers_.contains("K")) {
    if (heads) put("A", product(heads, head_dim));
    if (groups) put("G", product(groups, head_dim));
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
    stated.shape.push_back(*number->second);
    stated.is_of_heads = stated.is_of_heads || has_letter("AGF", letter);
    stated.is_of_others = stated.is_of_others || has_letter("MELK", letter);
    stated.origins += (stated.origins.empty() ? "" : "; ") + number->second.origin();
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
  return "is " + to_string(found) + " in " + pieces +
         ", but according to config.json it should be " + to_string(stated.shape);
}

std::vector<std::string> twin_names(const std::string& name) {
  std::vector<std::string> names;
  if (name.ends_with(kWeight)) {
    names.push_back(name.substr(0, name.size() - kWeight.size()).append(kBias));
  }
  std::string weight = weight_name_of(name);
  if (weight != name) names.push_back(std::move(weight));
  return names;
}

RowsVerdict judge_rows(const NamedExtent& a, const NamedExtent& b) {
  if (a.shape.empty() || b.shape.empty()) return RowsVerdict::kUnknown;
  if (a.name.ends_with(kBias) != b.name.ends_with(kBias)) {
    const NamedExtent& bias = a.name.ends_with(kBias) ? a : b;
    const Shape& weight = (&bias == &a ? b : a).shape;
    const bool is_of_columns =
        std::find(weight.begin() + 1, weight.end(), bias.shape[0]) != weight.end();
    if (bias.shape.size() != 1) return RowsVerdict::kUnknown;
    if (is_of_columns && (&bias == &b || bias.shape[0] != weight[0])) return RowsVerdict::kUnknown;
  } else {
    const bool alike = a.shape.size() == b.shape.size() &&
                       std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
    if (!alike) return RowsVerdict::kUnknown;
  }
  if (a.shape[0] == b.shape[0]) return RowsVerdict::kSame;
  return a.shape[0] < b.shape[0] ? RowsVerdict::kFirstIsShort : RowsVerdict::kSecondIsShort;
}

std::string short_words(const NamedExtent& found, const NamedExtent& twin,
                        const std::string& pieces) {
  const auto extent = [](const NamedExtent& one) {
    return std::to_string(one.shape[0]) + (one.shape.size() == 1 ? " elements" : " rows");
  };
  return "has " + extent(found) + " in " + pieces + ", but '" + printable(twin.name) + "' has " +
         extent(twin);
}

}  // namespace reshardfs
