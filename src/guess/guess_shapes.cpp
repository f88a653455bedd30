// SPDX-License-Identifier: Apache-2.0
#include "guess/guess_shapes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "modelmap/expression.h"

namespace reshardfs {
namespace {

using Role = ParameterRole;

/// One kind of names. The first that matches, and whose shape the configuration has the numbers
/// for, counts.
struct Row {
  std::string_view glob;
  Role role;
  int usual_cut;
  /// Dimensions, separated by commas; "|" between shapes of which any may be right.
  std::string_view shape;
  std::string_view units = {};
  int padded = -1;
};

constexpr int kNoCut = -1;

/// Names end so, whatever the network calls the block. Shapes of matrices are [out, in] unless the
/// network is known to have them the other way round.
constexpr std::array kRows = {
    // Embeddings and heads.
    Row{"*tok_embeddings.embedding_weight", Role::kEmbedding, 0, "vocab, hidden", {}, 0},
    Row{"*embed_tokens.weight", Role::kEmbedding, 0, "vocab, hidden", {}, 0},
    Row{"*word_embeddings.weight", Role::kEmbedding, 0, "vocab, hidden", {}, 0},
    Row{"*word_embedding.embedding_table", Role::kEmbedding, 0, "vocab, hidden", {}, 0},
    Row{"*lm_head.weight", Role::kEmbedding, 0, "vocab, hidden", {}, 0},
    Row{"*output_layer.weight", Role::kEmbedding, 0, "vocab, hidden", {}, 0},
    Row{"*position_embedding.embedding_table", Role::kOther, kNoCut,
        "max_position_embeddings, hidden"},

    // Multi-head latent attention: before the names that it shares with other attention.
    Row{"*attention.q2l_proj.weight", Role::kOther, kNoCut, "q_lora_rank, hidden"},
    Row{"*attention.lq_norm.weight", Role::kOther, kNoCut, "q_lora_rank"},
    Row{"*attention.lkv_norm.weight", Role::kOther, kNoCut, "kv_lora_rank"},
    Row{"*attention.l2q_nope_proj.weight", Role::kProjection, 0,
        "heads*qk_nope_head_dim, q_lora_rank"},
    Row{"*attention.l2q_pe_proj.weight", Role::kProjection, 0,
        "heads*qk_rope_head_dim, q_lora_rank"},
    Row{"*attention.kv2l_latent_kv.weight", Role::kOther, kNoCut, "kv_lora_rank, hidden"},
    Row{"*attention.kv2l_k_pe.weight", Role::kOther, kNoCut, "qk_rope_head_dim, hidden"},
    Row{"*attention.lkv2kv_k_nope.weight", Role::kProjection, 0,
        "heads*qk_nope_head_dim, kv_lora_rank"},
    Row{"*attention.lkv2kv_v.weight", Role::kProjection, 0, "heads*v_head_dim, kv_lora_rank"},
    Row{"*self_attention.linear_q_down_proj.weight", Role::kOther, kNoCut, "q_lora_rank, hidden"},
    Row{"*self_attention.linear_q_up_proj.weight", Role::kProjection, 0,
        "heads*(qk_nope_head_dim+qk_rope_head_dim), q_lora_rank"},
    Row{"*self_attention.linear_kv_down_proj.weight", Role::kOther, kNoCut,
        "kv_lora_rank+qk_rope_head_dim, hidden"},
    Row{"*self_attention.linear_kv_up_proj.weight", Role::kProjection, 0,
        "heads*(qk_nope_head_dim+v_head_dim), kv_lora_rank"},
    Row{"*self_attention.kv_layernorm.weight", Role::kOther, kNoCut, "kv_lora_rank"},
    Row{"*self_attention.q_layernorm.weight", Role::kOther, kNoCut, "q_lora_rank"},
    Row{"*self_attn.q_a_proj.weight", Role::kOther, kNoCut, "q_lora_rank, hidden"},
    Row{"*self_attn.q_a_layernorm.weight", Role::kOther, kNoCut, "q_lora_rank"},
    Row{"*self_attn.q_b_proj.weight", Role::kProjection, 0,
        "heads*(qk_nope_head_dim+qk_rope_head_dim), q_lora_rank"},
    Row{"*self_attn.kv_a_proj_with_mqa.weight", Role::kOther, kNoCut,
        "kv_lora_rank+qk_rope_head_dim, hidden"},
    Row{"*self_attn.kv_a_layernorm.weight", Role::kOther, kNoCut, "kv_lora_rank"},
    Row{"*self_attn.kv_b_proj.weight", Role::kProjection, 0,
        "heads*(qk_nope_head_dim+v_head_dim), kv_lora_rank"},
    Row{"*attention.wo.weight", Role::kProjection, 1, "hidden, heads*v_head_dim"},
    Row{"*self_attention.linear_proj.weight", Role::kProjection, 1, "hidden, heads*v_head_dim"},
    Row{"*self_attn.o_proj.weight", Role::kProjection, 1, "hidden, heads*v_head_dim"},

    // Attention.
    Row{"*attention.wq.weight", Role::kProjection, 0, "heads*head_dim, hidden", "heads"},
    Row{"*attention.w[kv].weight", Role::kProjection, 0, "groups*head_dim, hidden", "groups"},
    Row{"*attention.wo.weight", Role::kProjection, 1, "hidden, heads*head_dim", "heads"},
    Row{"*attention.wq.bias", Role::kVector, 0, "heads*head_dim", "heads"},
    Row{"*attention.w[kv].bias", Role::kVector, 0, "groups*head_dim", "groups"},
    Row{"*attention.wo.bias", Role::kOther, kNoCut, "hidden"},
    Row{"*attention.w_qkv.weight", Role::kProjection, 0, "(heads+2*groups)*head_dim, hidden",
        "groups"},
    Row{"*attention.w_qkv.bias", Role::kVector, 0, "(heads+2*groups)*head_dim", "groups"},
    Row{"*self_attn.q_proj.weight", Role::kProjection, 0, "heads*head_dim, hidden", "heads"},
    Row{"*self_attn.[kv]_proj.weight", Role::kProjection, 0, "groups*head_dim, hidden", "groups"},
    Row{"*self_attn.o_proj.weight", Role::kProjection, 1, "hidden, heads*head_dim", "heads"},
    Row{"*self_attn.q_proj.bias", Role::kVector, 0, "heads*head_dim", "heads"},
    Row{"*self_attn.[kv]_proj.bias", Role::kVector, 0, "groups*head_dim", "groups"},
    Row{"*self_attn.o_proj.bias", Role::kOther, kNoCut, "hidden"},
    Row{"*self_attn.[qk]_norm.weight", Role::kOther, kNoCut, "head_dim"},
    Row{"*self_attention.linear_qkv.weight", Role::kProjection, 0,
        "(heads+2*groups)*head_dim, hidden", "groups"},
    Row{"*self_attention.linear_qkv.bias", Role::kVector, 0, "(heads+2*groups)*head_dim", "groups"},
    Row{"*self_attention.linear_proj.weight", Role::kProjection, 1, "hidden, heads*head_dim",
        "heads"},
    Row{"*self_attention.linear_proj.bias", Role::kOther, kNoCut, "hidden"},
    Row{"*self_attention.[qk]_layernorm.weight", Role::kOther, kNoCut, "head_dim"},
    Row{"*attention.dense[123].weight", Role::kProjection, 0,
        "heads*head_dim, hidden | hidden, heads*head_dim", "heads"},
    Row{"*attention.dense[123].bias", Role::kVector, 0, "heads*head_dim", "heads"},
    Row{"*attention.projection.weight", Role::kProjection, 0,
        "heads*head_dim, hidden | hidden, heads*head_dim", "heads"},
    Row{"*attention.projection.bias", Role::kOther, kNoCut, "hidden"},

    // Experts and routers.
    Row{"*feed_forward.router.dense.weight", Role::kOther, kNoCut, "experts, hidden"},
    Row{"*feed_forward.routed_experts.router*dense.weight", Role::kOther, kNoCut,
        "experts, hidden"},
    Row{"*feed_forward.routed_experts.*topk_bias", Role::kOther, kNoCut, "experts"},
    Row{"*feed_forward.routed_experts.ffn.w1", Role::kExperts, 0, "experts, hidden, 2*moe_ffn"},
    Row{"*feed_forward.routed_experts.ffn.w2", Role::kExperts, 0, "experts, moe_ffn, hidden"},
    Row{"*ffn.w[13].weight", Role::kExperts, 0,
        "experts, moe_ffn, hidden | experts, hidden, moe_ffn"},
    Row{"*ffn.w2.weight", Role::kExperts, 0, "experts, hidden, moe_ffn | experts, moe_ffn, hidden"},
    Row{"*feed_forward.shared_experts.w[13].weight", Role::kProjection, 0,
        "shared_experts*moe_ffn, hidden"},
    Row{"*feed_forward.shared_experts.w2.weight", Role::kProjection, 1,
        "hidden, shared_experts*moe_ffn"},
    Row{"*mlp.router.weight", Role::kOther, kNoCut, "experts, hidden"},
    Row{"*mlp.router.expert_bias", Role::kOther, kNoCut, "experts"},
    Row{"*mlp.experts.weight1", Role::kExperts, 0, "experts*hidden, 2*moe_ffn"},
    Row{"*mlp.experts.weight2", Role::kExperts, 0, "experts*moe_ffn, hidden"},
    Row{"*mlp.shared_experts.linear_fc1.weight", Role::kProjection, 0,
        "2*shared_experts*moe_ffn, hidden | shared_experts*moe_ffn, hidden"},
    Row{"*mlp.shared_experts.linear_fc2.weight", Role::kProjection, 1,
        "hidden, shared_experts*moe_ffn"},
    Row{"*mlp.gate.weight", Role::kOther, kNoCut, "experts, hidden"},
    Row{"*mlp.gate.e_score_correction_bias", Role::kOther, kNoCut, "experts"},
    Row{"*mlp.experts.*.gate_proj.weight", Role::kExperts, 0, "moe_ffn, hidden"},
    Row{"*mlp.experts.*.up_proj.weight", Role::kExperts, 0, "moe_ffn, hidden"},
    Row{"*mlp.experts.*.down_proj.weight", Role::kExperts, 1, "hidden, moe_ffn"},
    Row{"*mlp.shared_experts.gate_proj.weight", Role::kProjection, 0,
        "shared_experts*moe_ffn, hidden"},
    Row{"*mlp.shared_experts.up_proj.weight", Role::kProjection, 0,
        "shared_experts*moe_ffn, hidden"},
    Row{"*mlp.shared_experts.down_proj.weight", Role::kProjection, 1,
        "hidden, shared_experts*moe_ffn"},

    // Feed-forward.
    Row{"*feed_forward.w[13].weight", Role::kProjection, 0, "ffn, hidden"},
    Row{"*feed_forward.w2.weight", Role::kProjection, 1, "hidden, ffn"},
    Row{"*feed_forward.w[13].bias", Role::kVector, 0, "ffn"},
    Row{"*feed_forward.w2.bias", Role::kOther, kNoCut, "hidden"},
    Row{"*feed_forward.w_gate_hidden.weight", Role::kProjection, 0, "2*ffn, hidden"},
    Row{"*mlp.gate_proj.weight", Role::kProjection, 0, "ffn, hidden"},
    Row{"*mlp.up_proj.weight", Role::kProjection, 0, "ffn, hidden"},
    Row{"*mlp.down_proj.weight", Role::kProjection, 1, "hidden, ffn"},
    Row{"*mlp.gate_proj.bias", Role::kVector, 0, "ffn"},
    Row{"*mlp.up_proj.bias", Role::kVector, 0, "ffn"},
    Row{"*mlp.down_proj.bias", Role::kOther, kNoCut, "hidden"},
    Row{"*mlp.linear_fc1.weight", Role::kProjection, 0, "2*ffn, hidden | ffn, hidden"},
    Row{"*mlp.linear_fc1.bias", Role::kVector, 0, "2*ffn | ffn"},
    Row{"*mlp.linear_fc2.weight", Role::kProjection, 1, "hidden, ffn"},
    Row{"*mlp.linear_fc2.bias", Role::kOther, kNoCut, "hidden"},
    Row{"*output.mapping.weight", Role::kProjection, 1, "hidden, ffn | ffn, hidden"},
    Row{"*output.mapping.bias", Role::kVector, 0, "ffn"},
    Row{"*output.projection.weight", Role::kProjection, 0, "ffn, hidden | hidden, ffn"},
    Row{"*output.projection.bias", Role::kOther, kNoCut, "hidden"},

    // What a training counts, and the numbers of its optimizer.
    Row{"epoch_num", Role::kCounter, kNoCut, "1"},
    Row{"step_num", Role::kCounter, kNoCut, "1"},
    Row{"global_step", Role::kCounter, kNoCut, "1"},
    Row{"global_batch_size", Role::kCounter, kNoCut, "1"},
    Row{"consumed_samples", Role::kCounter, kNoCut, "1"},
    Row{"ckpt_status", Role::kCounter, kNoCut, "1"},
    Row{"current_iterator_step", Role::kCounter, kNoCut, "1"},
    Row{"last_overflow_iterator_step", Role::kCounter, kNoCut, "1"},
    Row{"loss_scale", Role::kCounter, kNoCut, "1"},
    Row{"scale_sense", Role::kCounter, kNoCut, "1"},
    Row{"learning_rate", Role::kCounter, kNoCut, "1"},
    Row{"momentum", Role::kCounter, kNoCut, "1"},
    Row{"weight_decay", Role::kCounter, kNoCut, "1"},
    Row{"beta[12]_power", Role::kCounter, kNoCut, "1"},

    // Norms.
    Row{"*attention_norm.weight", Role::kOther, kNoCut, "hidden"},
    Row{"*ffn_norm.weight", Role::kOther, kNoCut, "hidden"},
    Row{"*norm_out.weight", Role::kOther, kNoCut, "hidden"},
    Row{"*input_layernorm.weight", Role::kOther, kNoCut, "hidden"},
    Row{"*post_attention_layernorm.weight", Role::kOther, kNoCut, "hidden"},
    Row{"*pre_mlp_layernorm.weight", Role::kOther, kNoCut, "hidden"},
    Row{"*final_layernorm.weight", Role::kOther, kNoCut, "hidden"},
    Row{"*model.norm.weight", Role::kOther, kNoCut, "hidden"},
    Row{"*layernorm[12].gamma", Role::kOther, kNoCut, "hidden"},
    Row{"*layernorm[12].beta", Role::kOther, kNoCut, "hidden"},
    Row{"*.layernorm.gamma", Role::kOther, kNoCut, "hidden"},
    Row{"*.layernorm.beta", Role::kOther, kNoCut, "hidden"},
    Row{"mtp.layers.*.[eh]norm.weight", Role::kOther, kNoCut, "hidden"},
    Row{"mtp.layers.*.eh_proj.weight", Role::kOther, kNoCut, "hidden, 2*hidden"},
    Row{"*mtp_hidden_fusers.*.norm*.weight", Role::kOther, kNoCut, "hidden"},
    Row{"*mtp_hidden_fusers.*.dense.weight", Role::kOther, kNoCut, "hidden, 2*hidden"},
    Row{"*mtp_norms.*.weight", Role::kOther, kNoCut, "hidden"},
};

constexpr bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Whose networks have such names. MindFormers' legacy networks and those of Megatron's core, and
/// Hugging Face's, whose plans for tensor parallelism cut the same dimensions.
std::string_view network_of(std::string_view glob) {
  const bool is_gated = contains(glob, "mlp.") && contains(glob, "_proj");
  if (contains(glob, "self_attn.") || is_gated) return "Hugging Face";
  if (contains(glob, "attention.") || contains(glob, "feed_forward.") || contains(glob, "mlp."))
    return "MindFormers";
  return {};
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Nothing if the configuration lacks a number, or they do not fit together.
std::optional<std::int64_t> number(std::string_view text, const modelmap::Scope& scope) {
  try {
    const std::int64_t value = scope.evaluate(modelmap::Expression::parse(text));
    return value > 0 ? std::optional(value) : std::nullopt;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return std::nullopt;
  }
}

std::vector<Shape> shapes_of(std::string_view text, const modelmap::Scope& scope) {
  std::vector<Shape> shapes;
  for (const std::string_view alternative : split_at(text, '|')) {
    Shape shape;
    for (const std::string_view dimension : split_at(alternative, ',')) {
      const auto length = number(dimension, scope);
      if (!length) return {};
      shape.push_back(*length);
    }
    // Of a square matrix both ways are one.
    if (shapes.empty() || shapes.front() != shape) shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// Whether all alternatives have the same last dimension: of others nobody knows which dimension is
/// which.
bool has_one_direction(std::string_view text) {
  std::vector<std::string_view> last;
  for (const std::string_view alternative : split_at(text, '|')) {
    std::string_view name = split_at(alternative, ',').back();
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    last.push_back(name);
  }
  const bool is_vector = !contains(text, ",");
  return is_vector || std::all_of(last.begin(), last.end(),
                                  [&](std::string_view name) { return name == last.front(); });
}

bool is_cut_one_way(const Row& row) {
  switch (row.role) {
    case Role::kProjection:
    case Role::kEmbedding:
    case Role::kVector:
      return has_one_direction(row.shape);
    case Role::kOther:
      return !contains(row.shape, ",");
    case Role::kExperts:
    case Role::kCounter:
      break;
  }
  return false;
}

}  // namespace

KnownParameters::KnownParameters(const std::optional<modelmap::ModelConfig>& config) {
  modelmap::Variables variables;
  if (config) variables.config = *config;
  const modelmap::Scope scope(variables);
  for (const Row& row : kRows) {
    KnownParameter parameter{row.role, row.usual_cut, {}, std::string(row.shape), 0, row.padded};
    parameter.shapes = shapes_of(row.shape, scope);
    parameter.network = network_of(row.glob);
    parameter.one_way = is_cut_one_way(row);
    if (!row.units.empty()) parameter.units = number(row.units, scope).value_or(0);
    entries_.push_back({std::string(row.glob), std::move(parameter)});
  }
  fewest_layers_ = number("layers", scope);
  if (fewest_layers_) most_layers_ = *fewest_layers_ + number("mtp_layers", scope).value_or(0);
}

const KnownParameter* KnownParameters::find(const std::string& name) const {
  const KnownParameter* named = nullptr;
  for (const Entry& entry : entries_) {
    if (!glob_match(entry.glob, name)) continue;
    if (!entry.parameter.shapes.empty()) return &entry.parameter;
    named = &entry.parameter;
  }
  return named;
}

}  // namespace reshardfs
