// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/tensor_cuts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "checkpoint/megatron/tensor_names.h"

namespace reshardfs {
namespace {

/// What the table says of a module's parameter.
enum class CutRule : std::uint8_t {
  kWhole,
  kRows,
  kColumns,
  kFirstOfMlp,      ///< rows, gated or not
  kHeadNorm,        ///< whole, if it is of one head
  kDownProjection,  ///< rows, or whole where it is a module of Transformer Engine
};

struct ModuleRule {
  std::string_view module;  ///< perhaps with those that it is in
  std::string_view parameter;
  CutRule rule;
};

/// By the last words of a name. The names of parts are those of split_into_parts().
constexpr std::array kCutTable{
    ModuleRule{"word_embeddings", "weight", CutRule::kRows},
    ModuleRule{"position_embeddings", "weight", CutRule::kWhole},
    ModuleRule{"output_layer", "weight", CutRule::kRows},
    ModuleRule{"final_layernorm", "weight", CutRule::kWhole},
    ModuleRule{"final_layernorm", "bias", CutRule::kWhole},
    ModuleRule{"decoder.final_norm", "weight", CutRule::kWhole},
    ModuleRule{"decoder.final_norm", "bias", CutRule::kWhole},
    ModuleRule{"mixer.in_proj", "layer_norm_weight", CutRule::kWhole},
    ModuleRule{"mixer.in_proj.weight", "z", CutRule::kRows},
    ModuleRule{"mixer.in_proj.weight", "x", CutRule::kRows},
    ModuleRule{"mixer.in_proj.weight", "B", CutRule::kRows},
    ModuleRule{"mixer.in_proj.weight", "C", CutRule::kRows},
    ModuleRule{"mixer.in_proj.weight", "dt", CutRule::kRows},
    ModuleRule{"mixer.conv1d.weight", "x", CutRule::kRows},
    ModuleRule{"mixer.conv1d.weight", "B", CutRule::kRows},
    ModuleRule{"mixer.conv1d.weight", "C", CutRule::kRows},
    ModuleRule{"mixer.conv1d.bias", "x", CutRule::kRows},
    ModuleRule{"mixer.conv1d.bias", "B", CutRule::kRows},
    ModuleRule{"mixer.conv1d.bias", "C", CutRule::kRows},
    ModuleRule{"mixer", "A_log", CutRule::kRows},
    ModuleRule{"mixer", "D", CutRule::kRows},
    ModuleRule{"mixer", "dt_bias", CutRule::kRows},
    ModuleRule{"mixer.norm", "weight", CutRule::kRows},
    ModuleRule{"mixer.out_proj", "weight", CutRule::kColumns},
    ModuleRule{"self_attention.in_proj", "layer_norm_weight", CutRule::kWhole},
    ModuleRule{"self_attention.in_proj.weight", "query", CutRule::kRows},
    ModuleRule{"self_attention.in_proj.weight", "key", CutRule::kRows},
    ModuleRule{"self_attention.in_proj.weight", "value", CutRule::kRows},
    ModuleRule{"self_attention.in_proj.weight", "z", CutRule::kRows},
    ModuleRule{"self_attention.in_proj.weight", "beta", CutRule::kRows},
    ModuleRule{"self_attention.in_proj.weight", "alpha", CutRule::kRows},
    ModuleRule{"self_attention.conv1d.weight", "query", CutRule::kRows},
    ModuleRule{"self_attention.conv1d.weight", "key", CutRule::kRows},
    ModuleRule{"self_attention.conv1d.weight", "value", CutRule::kRows},
    ModuleRule{"self_attention", "A_log", CutRule::kRows},
    ModuleRule{"self_attention", "dt_bias", CutRule::kRows},
    ModuleRule{"self_attention.out_norm", "weight", CutRule::kWhole},
    ModuleRule{"self_attention.out_proj", "weight", CutRule::kColumns},
    ModuleRule{"input_layernorm", "weight", CutRule::kWhole},
    ModuleRule{"input_layernorm", "bias", CutRule::kWhole},
    ModuleRule{"pre_mlp_layernorm", "weight", CutRule::kWhole},
    ModuleRule{"pre_mlp_layernorm", "bias", CutRule::kWhole},
    ModuleRule{"linear_qkv", "layer_norm_weight", CutRule::kWhole},
    ModuleRule{"linear_qkv", "layer_norm_bias", CutRule::kWhole},
    ModuleRule{"linear_qkv", "weight", CutRule::kRows},
    ModuleRule{"linear_qkv", "bias", CutRule::kRows},
    ModuleRule{"linear_proj", "weight", CutRule::kColumns},
    ModuleRule{"linear_proj", "bias", CutRule::kWhole},
    ModuleRule{"core_attention", "softmax_offset", CutRule::kRows},
    ModuleRule{"q_layernorm", "weight", CutRule::kHeadNorm},
    ModuleRule{"q_layernorm", "bias", CutRule::kHeadNorm},
    ModuleRule{"k_layernorm", "weight", CutRule::kHeadNorm},
    ModuleRule{"k_layernorm", "bias", CutRule::kHeadNorm},
    ModuleRule{"linear_q_proj", "weight", CutRule::kRows},
    ModuleRule{"linear_q_down_proj", "weight", CutRule::kDownProjection},
    ModuleRule{"linear_q_up_proj", "layer_norm_weight", CutRule::kWhole},
    ModuleRule{"linear_q_up_proj", "weight", CutRule::kRows},
    ModuleRule{"linear_kv_down_proj", "weight", CutRule::kDownProjection},
    ModuleRule{"linear_kv_up_proj", "layer_norm_weight", CutRule::kWhole},
    ModuleRule{"linear_kv_up_proj", "weight", CutRule::kRows},
    ModuleRule{"kv_layernorm", "weight", CutRule::kWhole},
    ModuleRule{"linear_fc1", "layer_norm_weight", CutRule::kWhole},
    ModuleRule{"linear_fc1", "layer_norm_bias", CutRule::kWhole},
    ModuleRule{"linear_fc1", "weight", CutRule::kFirstOfMlp},
    ModuleRule{"linear_fc1", "bias", CutRule::kFirstOfMlp},
    ModuleRule{"linear_fc2", "weight", CutRule::kColumns},
    ModuleRule{"linear_fc2", "bias", CutRule::kWhole},
    ModuleRule{"router", "weight", CutRule::kWhole},
    ModuleRule{"router", "bias", CutRule::kWhole},
    ModuleRule{"router", "expert_bias", CutRule::kWhole},
    ModuleRule{"shared_experts", "gate_weight", CutRule::kWhole},
    ModuleRule{"enorm", "weight", CutRule::kWhole},
    ModuleRule{"hnorm", "weight", CutRule::kWhole},
    ModuleRule{"eh_proj", "weight", CutRule::kRows},
};

struct LastWords {
  std::string_view before;  ///< with the dot at its end
  std::string_view module;
  std::string_view parameter;
};

LastWords last_words(std::string_view name) {
  const std::size_t last = name.rfind('.');
  if (last == std::string_view::npos) return {{}, {}, name};
  const std::string_view begin = name.substr(0, last);
  const std::size_t dot = begin.rfind('.');
  const std::size_t module = dot == std::string_view::npos ? 0 : dot + 1;
  return {begin.substr(0, module), begin.substr(module), name.substr(last + 1)};
}

/// "weight" for "weight12", as experts in groups are called.
std::string_view without_number(std::string_view parameter) {
  return parameter.substr(0, parameter.find_last_not_of("0123456789") + 1);
}

std::optional<CutRule> rule_of(std::string_view name, bool in_group) {
  const std::size_t last = name.rfind('.');
  if (last == std::string_view::npos) return std::nullopt;
  const std::string_view module = name.substr(0, last);
  const std::string_view own = name.substr(last + 1);
  const std::string_view parameter = in_group ? without_number(own) : own;
  const auto found = std::find_if(kCutTable.begin(), kCutTable.end(), [&](const ModuleRule& entry) {
    const bool is_end = module.ends_with(entry.module) && entry.parameter == parameter;
    const std::size_t before = module.size() - entry.module.size();
    return is_end && (before == 0 || module[before - 1] == '.');
  });
  return found == kCutTable.end() ? std::nullopt : std::optional(found->rule);
}

std::size_t dimensions_of(CutRule rule) {
  return rule == CutRule::kColumns || rule == CutRule::kDownProjection ? 2 : 1;
}

Known<MegatronCut> by_table(MegatronCut cut) {
  return Known<MegatronCut>::derived(cut, "the table of modules");
}

Known<MegatronCut> unknown(std::string why) {
  return Known<MegatronCut>::unknown(std::move(why));
}

std::optional<std::int64_t> product(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  return a && b ? checked_mul(*a, *b) : std::nullopt;
}

std::optional<std::int64_t> sum(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  return a && b ? checked_add(*a, *b) : std::nullopt;
}

/// What the arguments state of each dimension; empty: of none of theirs, or checked otherwise.
struct SizedName {
  std::string_view name;  ///< how it ends in a layer, or all of it
  std::vector<std::string_view> arguments;
  bool may_be_gated = false;  ///< with twice as many rows
};

constexpr std::string_view kHidden = "hidden_size";
constexpr std::string_view kFfn = "ffn_hidden_size";

const std::vector<SizedName> kSizes{
    {"embedding.word_embeddings.weight", {"", kHidden}},
    {"output_layer.weight", {"", kHidden}},
    {"decoder.final_layernorm.weight", {kHidden}},
    {"decoder.final_norm.weight", {kHidden}},
    {".input_layernorm.weight", {kHidden}},
    {".pre_mlp_layernorm.weight", {kHidden}},
    {".self_attention.linear_qkv.layer_norm_weight", {kHidden}},
    {".self_attention.linear_qkv.weight", {"", kHidden}},
    {".self_attention.linear_proj.weight", {kHidden, ""}},
    {".mlp.linear_fc1.layer_norm_weight", {kHidden}},
    {".mlp.linear_fc1.weight", {kFfn, kHidden}, true},
    {".mlp.linear_fc2.weight", {kHidden, kFfn}},
};

/// Whether each layer may have sizes of its own.
bool layers_differ(const MegatronArgs& args) {
  return args.is_set("heterogeneous_layers_config_path") ||
         args.is_set("heterogeneous_layers_config_encoded_json");
}

/// The rows of queries, keys and values; nothing where layers may differ, or numbers are missing.
std::optional<std::int64_t> attention_rows(const MegatronArgs& args) {
  const auto grouped = args.flag("group_query_attention");
  if (layers_differ(args) || args.is_set("multi_latent_attention") || !grouped) {
    return std::nullopt;
  }
  const auto heads = args.number("num_attention_heads");
  const auto groups = *grouped ? args.number("num_query_groups") : heads;
  // With a gate for the output, each head's query has one of the same size.
  const auto queries = args.is_set("attention_output_gate") ? sum(heads, heads) : heads;
  return product(sum(queries, sum(groups, groups)), args.number("kv_channels"));
}

std::int64_t whole_length(std::int64_t length, std::int64_t count) {
  return mul_or_throw(length, count, "the length of the whole tensor");
}

TorchTensor cut_rows(const TorchTensor& tensor, std::int64_t first, std::int64_t count) {
  TorchTensor rows = tensor;
  rows.name.clear();
  rows.shape[0] = count;
  if (count > 0) rows.first += first * rows.strides[0];
  return rows;
}

void add_expert(PlacedPart& part, const OneOf& expert) {
  part.full_shape.insert(part.full_shape.begin(), expert.count);
  for (TorchTensor& box : part.boxes) {
    box.shape.insert(box.shape.begin(), 1);
    box.strides.insert(box.strides.begin(), 1);  // never used
  }
  for (Shape& offsets : part.offsets) offsets.insert(offsets.begin(), expert.number);
}

}  // namespace

Known<MegatronCut> MegatronCuts::find(const std::string& name) const {
  const Shape& shape = shapes_.at(name);
  const LastWords words = last_words(name);
  const auto rule = rule_of(name, parse_expert(name).has_value());
  if (!rule) return unknown("no rule states how tensor-parallel ranks share it");
  if (*rule != CutRule::kWhole && shape.size() < dimensions_of(*rule)) {
    return unknown("it has " + std::to_string(shape.size()) +
                   " dimensions, too few for a tensor of this name");
  }
  switch (*rule) {
    case CutRule::kWhole:
      return by_table(MegatronCut::kWhole);
    case CutRule::kRows:
      return by_table(MegatronCut::kRows);
    case CutRule::kColumns:
      return by_table(MegatronCut::kColumns);
    case CutRule::kFirstOfMlp:
      return gated(name, shape);
    case CutRule::kHeadNorm:
      return head_norm(name, shape);
    case CutRule::kDownProjection:
      return rows_or_whole(std::string(words.module), shape);
  }
  return unknown("no rule states how tensor-parallel ranks share it");
}

/// The second module of the MLP has one column for each row, or for each pair of rows of gate and
/// up.
Known<MegatronCut> MegatronCuts::gated(const std::string& name, const Shape& shape) const {
  const LastWords words = last_words(name);
  std::string second = std::string(words.before) + "linear_fc2.weight";
  if (const auto number = words.parameter.substr(without_number(words.parameter).size());
      !number.empty()) {
    second += number;
  }
  const auto found = shapes_.find(second);
  if (found == shapes_.end() || found->second.size() != 2) {
    return unknown("only '" + second + "', which is missing, shows whether it has rows of a gate");
  }
  const std::int64_t columns = found->second[1];
  if (shape[0] == columns) {
    if (!args_.is_set("swiglu")) return by_table(MegatronCut::kRows);
    return unknown("the arguments state swiglu, but it has no rows of a gate");
  }
  if (product(columns, 2) != shape[0]) {
    return unknown("it has " + std::to_string(shape[0]) + " rows, which do not fit the " +
                   std::to_string(columns) + " columns of '" + second + "'");
  }
  const bool shared = words.before.ends_with(".shared_experts.");
  const bool routed = parse_expert(name).has_value();
  const char* const interleaved =
      shared ? "moe_shared_expert_glu_interleave_size" : "moe_mlp_glu_interleave_size";
  if ((shared || routed) && args_.is_set(interleaved)) {
    return unknown("its rows of gate and up alternate (" + std::string(interleaved) + ")");
  }
  return by_table(MegatronCut::kGatedRows);
}

/// Norms of one head are whole. Those over all heads, which are cut, are not Megatron-LM's own.
Known<MegatronCut> MegatronCuts::head_norm(const std::string& name, const Shape& shape) const {
  if (args_.is_set("multi_latent_attention")) return by_table(MegatronCut::kWhole);
  const auto channels = args_.number("kv_channels");
  if (!channels) return unknown("the arguments state no kv_channels, the size of a head");
  // With one key head on each rank, only the queries' norm shows which form it is.
  const LastWords words = last_words(name);
  const auto queries =
      shapes_.find(std::string(words.before) + "q_layernorm." + std::string(words.parameter));
  const bool of_head = shape.size() == 1 && shape[0] == *channels && queries != shapes_.end() &&
                       queries->second == shape;
  if (of_head) return by_table(MegatronCut::kWhole);
  return unknown("it is no norm of one head, which has the size " + std::to_string(*channels));
}

Known<MegatronCut> MegatronCuts::rows_or_whole(const std::string& module,
                                               const Shape& shape) const {
  const auto rank = args_.number(module == "linear_q_down_proj" ? "q_lora_rank" : "kv_lora_rank");
  const auto rows =
      module == "linear_q_down_proj" ? rank : sum(rank, args_.number("qk_pos_emb_head_dim"));
  if (!rows) return unknown("the arguments state no number of its rows");
  if (shape[0] == *rows) return by_table(MegatronCut::kWhole);
  if (product(shape[0], ranks_) == rows) return by_table(MegatronCut::kRows);
  return unknown("it has " + std::to_string(shape[0]) + " rows, but by the arguments " +
                 std::to_string(*rows) + ", or a part of them on each rank");
}

std::string contradiction(const MegatronArgs& args, const std::string& name, const Shape& shape) {
  if (shape.empty()) return {};
  const bool is_vocabulary =
      name == "embedding.word_embeddings.weight" || name == "output_layer.weight";
  if (is_vocabulary) {
    const auto rows = args.number("padded_vocab_size");
    if (rows && *rows != shape[0]) {
      return "it has " + std::to_string(shape[0]) +
             " rows, but the arguments state a vocabulary of " + std::to_string(*rows) +
             " with padding (padded_vocab_size)";
    }
  }
  const bool in_layer = decoder_layer(name).has_value();
  const bool is_attention = in_layer && (name.ends_with(".self_attention.linear_qkv.weight") ||
                                         name.ends_with(".self_attention.linear_qkv.bias"));
  const auto rows = is_attention ? attention_rows(args) : std::nullopt;
  if (rows && *rows != shape[0]) {
    return "it has " + std::to_string(shape[0]) +
           " rows, but heads and query groups in the arguments result in " + std::to_string(*rows);
  }
  const auto row = std::find_if(kSizes.begin(), kSizes.end(), [&](const SizedName& sized) {
    return in_layer ? name.ends_with(sized.name) : name == sized.name;
  });
  if (row == kSizes.end() || shape.size() != row->arguments.size()) return {};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::string_view argument = row->arguments[d];
    if (argument.empty() || layers_differ(args)) continue;
    const auto stated = args.number(argument);
    const bool fits = !stated || shape[d] == *stated ||
                      (row->may_be_gated && product(stated, 2) == std::optional(shape[d]));
    if (fits) continue;
    return "it is " + to_string(shape) + ", but the arguments state " + std::string(argument) +
           " " + std::to_string(*stated);
  }
  return {};
}

PlacedPart place_part(const TorchTensor& tensor, MegatronCut cut, const OneOf& rank,
                      const std::optional<OneOf>& expert) {
  PlacedPart part;
  part.full_shape = tensor.shape;
  const std::size_t dimension = cut == MegatronCut::kColumns ? 1 : 0;
  Shape offsets(tensor.shape.size(), 0);
  if (cut != MegatronCut::kWhole) {
    part.full_shape[dimension] = whole_length(tensor.shape[dimension], rank.count);
    offsets[dimension] = whole_length(tensor.shape[dimension], rank.number);
  }
  if (cut == MegatronCut::kGatedRows) {
    const std::int64_t half = tensor.shape[0] / 2;
    part.boxes = {cut_rows(tensor, 0, half), cut_rows(tensor, half, half)};
    offsets[0] = half * rank.number;
    part.offsets = {offsets, offsets};
    part.offsets[1][0] += half * rank.count;
  } else {
    part.boxes = {tensor};
    part.boxes[0].name.clear();
    part.offsets = {offsets};
  }
  if (expert) add_expert(part, *expert);
  return part;
}

}  // namespace reshardfs
