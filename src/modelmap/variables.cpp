// SPDX-License-Identifier: Apache-2.0
#include "modelmap/variables.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

namespace reshardfs::modelmap {
namespace {

/// Variables that stand for each other.
constexpr std::size_t kMaxVariableDepth = 64;

/// A name that config.json has under various keys.
struct KnownName {
  std::string_view name;
  std::array<std::string_view, 6> keys;
  std::string_view otherwise;  ///< an expression; empty: unknown
};

constexpr std::array<KnownName, 15> kKnownNames = {{
    {"heads", {"num_attention_heads", "n_head", "num_heads", "n_heads"}, ""},
    {"groups",
     {"num_key_value_heads", "num_query_groups", "n_kv_heads", "multi_query_group_num"},
     "heads"},
    {"hidden", {"hidden_size", "n_embd", "d_model", "dim"}, ""},
    {"head_dim", {"head_dim", "kv_channels"}, "hidden/heads"},
    {"layers", {"num_hidden_layers", "num_layers", "n_layer", "n_layers"}, ""},
    {"ffn", {"intermediate_size", "ffn_hidden_size", "n_inner"}, ""},
    {"moe_ffn", {"moe_intermediate_size", "moe_ffn_hidden_size"}, "ffn"},
    {"experts",
     {"n_routed_experts", "num_experts", "num_local_experts", "num_moe_experts",
      "num_routed_experts", "expert_num"},
     ""},
    {"shared_experts", {"n_shared_experts", "shared_expert_num"}, "0"},
    {"dense_layers", {"first_k_dense_replace"}, "0"},
    {"mtp_layers", {"num_nextn_predict_layers", "mtp_num_layers"}, "0"},
    {"vocab", {"vocab_size"}, ""},
    {"tied", {"tie_word_embeddings"}, "0"},
    {"tp", {}, "1"},
    {"from_tp", {}, "1"},
}};

const KnownName* known_name(std::string_view name) {
  const auto* const found =
      std::find_if(kKnownNames.begin(), kKnownNames.end(),
                   [&](const KnownName& known) { return known.name == name; });
  return found == kKnownNames.end() ? nullptr : found;
}

void add_numbers(const nlohmann::json& object, std::map<std::string, std::int64_t>& out) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_boolean()) {
      out[key] = value.get<bool>() ? 1 : 0;
    } else if (value.is_number_unsigned()) {
      constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
      if (value.get<std::uint64_t>() <= kMost) out[key] = value.get<std::int64_t>();
    } else if (value.is_number_integer()) {
      out[key] = value.get<std::int64_t>();
    }
  }
}

}  // namespace

ModelConfig ModelConfig::parse(const std::string& text) {
  if (text.size() > kMaxConfigBytes) {
    throw Error(ErrorKind::kBadInput, "config.json is larger than 16 MiB");
  }
  // Of what lies deeper, nothing is kept.
  const auto keep = [](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    return depth <= 2;
  };
  const nlohmann::json json = nlohmann::json::parse(text, keep, /*allow_exceptions=*/false);
  if (!json.is_object()) throw Error(ErrorKind::kBadInput, "it is not a JSON object");
  ModelConfig config;
  add_numbers(json, config.top_);
  const auto inner = json.find("text_config");
  if (inner != json.end() && inner->is_object()) add_numbers(*inner, config.text_);
  return config;
}

std::optional<std::int64_t> ModelConfig::find(const std::string& key) const {
  for (const auto* level : {&top_, &text_}) {
    const auto found = level->find(key);
    if (found != level->end()) return found->second;
  }
  return std::nullopt;
}

std::set<std::string> Variables::with_dependencies(const std::vector<std::string>& names) const {
  std::set<std::string> all;
  std::vector<std::string> pending = names;
  while (!pending.empty()) {
    const std::string name = std::move(pending.back());
    pending.pop_back();
    if (!all.insert(name).second) continue;
    if (const auto defined = table.find(name); defined != table.end()) {
      for (const Expression& expression : defined->second) {
        pending.insert(pending.end(), expression.names().begin(), expression.names().end());
      }
    }
    const KnownName* known = known_name(name);
    if (known != nullptr && !known->otherwise.empty()) {
      const Expression otherwise = Expression::parse(known->otherwise);
      pending.insert(pending.end(), otherwise.names().begin(), otherwise.names().end());
    }
  }
  return all;
}

std::pair<std::string, std::int64_t> parse_map_variable(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const char* const begin = equals == std::string::npos ? end : text.data() + equals + 1;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (!is_expression_name(name) || error != std::errc() || stop != end) {
    throw Error(ErrorKind::kUsage, "--map-var has '" + printable(text) +
                                       "', expected NAME=NUMBER, for example heads=32");
  }
  return {name, value};
}

void Scope::bind(const std::string& name, std::int64_t value) {
  bound_[name] = value;
  found_.clear();
}

void Scope::unbind(const std::string& name) {
  bound_.erase(name);
  found_.clear();
}

std::int64_t Scope::value(const std::string& name) const {
  const Found found = look_up(name);
  if (found.value) return *found.value;
  const bool is_bound_by_shapes = name.size() == 1 && name[0] >= 'A' && name[0] <= 'Z';
  throw Error(ErrorKind::kBadInput,
              found.why + (is_bound_by_shapes ? "; 'shape' or 'to_shape' has to bind it"
                                              : "; --model-config or --map-var can give it"));
}

std::int64_t Scope::evaluate(const Expression& expression) const {
  return expression.evaluate([this](const std::string& name) { return value(name); });
}

Scope::Found Scope::look_up(const std::string& name) const {
  if (const auto known = bound_.find(name); known != bound_.end()) return {known->second, {}};
  if (words_.contains(name)) {
    throw Error(ErrorKind::kBadInput, "the capture '" + name + "' is a word, not a number");
  }
  if (const auto known = found_.find(name); known != found_.end()) return known->second;
  // A variable may stand for what its name means without it.
  if (!pending_.empty() && pending_.back() == name) return from_config(name);
  if (pending_.size() > kMaxVariableDepth ||
      std::find(pending_.begin(), pending_.end(), name) != pending_.end()) {
    throw Error(ErrorKind::kBadInput, "variable '" + printable(pending_.front()) +
                                          "' stands for itself, or for more than " +
                                          std::to_string(kMaxVariableDepth) +
                                          " others one after the other");
  }
  pending_.push_back(name);
  try {
    Found found = find(name);
    pending_.pop_back();
    return found_[name] = std::move(found);
  } catch (...) {
    pending_.pop_back();
    throw;
  }
}

Scope::Found Scope::find(const std::string& name) const {
  if (const auto given = variables_.given.find(name); given != variables_.given.end()) {
    return {given->second, {}};
  }
  const auto defined = variables_.table.find(name);
  if (defined != variables_.table.end()) {
    Found found = from_alternatives(name, defined->second);
    if (found.value) return found;
    Found other = from_config(name);
    return other.value ? other : found;
  }
  return from_config(name);
}

Scope::Found Scope::from_config(const std::string& name) const {
  if (const auto key = variables_.config.find(name)) return {*key, {}};
  return from_known_keys(name);
}

Scope::Found Scope::from_alternatives(const std::string& name,
                                      const std::vector<Expression>& all) const {
  Found last{std::nullopt, "unknown variable '" + name + "'"};
  for (const Expression& expression : all) {
    const auto unknown = std::find_if(expression.names().begin(), expression.names().end(),
                                      [&](const std::string& used) { return !is_known(used); });
    if (unknown == expression.names().end()) return {evaluate(expression), {}};
    last.why = "unknown variable '" + name + "', since " + look_up(*unknown).why;
  }
  return last;
}

Scope::Found Scope::from_known_keys(const std::string& name) const {
  Found unknown{std::nullopt, "unknown variable '" + printable(name) + "'"};
  const KnownName* known = known_name(name);
  if (known == nullptr) return unknown;
  for (const std::string_view key : known->keys) {
    if (key.empty()) continue;
    if (const auto value = variables_.config.find(std::string(key))) return {*value, {}};
  }
  if (parts_ && (name == "tp" || name == "from_tp")) return {parts_(name), {}};
  if (known->otherwise.empty()) return unknown;
  return from_alternatives(name, {Expression::parse(known->otherwise)});
}

}  // namespace reshardfs::modelmap
