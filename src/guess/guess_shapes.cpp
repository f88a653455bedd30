// SPDX-License-Identifier: Apache-2.0
#include "guess/guess_shapes.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "modelmap/expression.h"
#include "modelmap/family_cuts.h"

namespace reshardfs {
namespace {

using Role = ParameterRole;

/// One kind of names in networks without a map. The glob matches the end of names, independent of
/// the block's name.
struct Row {
  std::string_view glob;
  /// As maps state it; "|" between shapes of which any may be right.
  std::string_view whole;
  bool is_counter = false;
};

/// Where a map has such names too, networks have matrices of either shape.
constexpr std::array kRows = {
    // Legacy networks of MindFormers besides Llama's. Shapes of matrices are [out, in] unless the
    // network is known to have them the other way round.
    Row{"*word_embedding.embedding_table", "[cut vocab by vocab, hidden]"},
    Row{"*position_embedding.embedding_table", "[max_position_embeddings, hidden]"},
    Row{"*attention.dense[123].weight",
        "[cut heads*head_dim by heads, hidden] | [cut hidden by heads, heads*head_dim]"},
    Row{"*attention.dense[123].bias", "[cut heads*head_dim by heads]"},
    Row{"*attention.projection.weight",
        "[cut heads*head_dim by heads, hidden] | [cut hidden by heads, heads*head_dim]"},
    Row{"*attention.projection.bias", "[hidden]"},
    Row{"*output.mapping.weight", "[hidden, cut ffn] | [ffn, cut hidden]"},
    Row{"*output.mapping.bias", "[cut ffn]"},
    Row{"*output.projection.weight", "[cut ffn, hidden] | [cut hidden, ffn]"},
    Row{"*output.projection.bias", "[hidden]"},
    Row{"*layernorm[12].gamma", "[hidden]"},
    Row{"*layernorm[12].beta", "[hidden]"},
    Row{"*.layernorm.gamma", "[hidden]"},
    Row{"*.layernorm.beta", "[hidden]"},

    // Networks of Megatron's core without gates, and with biases.
    Row{"*mlp.linear_fc1.weight", "[cut ffn, hidden]"},
    Row{"*mlp.linear_fc1.bias", "[cut 2*ffn] | [cut ffn]"},
    Row{"*mlp.linear_fc2.bias", "[hidden]"},
    Row{"*mlp.shared_experts.linear_fc1.weight", "[cut shared_experts*moe_ffn, hidden]"},

    // What a training counts, and the numbers of its optimizer.
    Row{"epoch_num", "[1]", true},
    Row{"step_num", "[1]", true},
    Row{"global_step", "[1]", true},
    Row{"global_batch_size", "[1]", true},
    Row{"consumed_samples", "[1]", true},
    Row{"ckpt_status", "[1]", true},
    Row{"current_iterator_step", "[1]", true},
    Row{"last_overflow_iterator_step", "[1]", true},
    Row{"loss_scale", "[1]", true},
    Row{"scale_sense", "[1]", true},
    Row{"learning_rate", "[1]", true},
    Row{"momentum", "[1]", true},
    Row{"weight_decay", "[1]", true},
    Row{"beta[12]_power", "[1]", true},
};

/// What kRows say, read once.
struct OwnName {
  std::string glob{};
  std::vector<modelmap::WholeShape> wholes{};
  bool is_counter = false;
};

std::vector<OwnName> read_rows() {
  std::vector<OwnName> names;
  for (const Row& row : kRows) {
    OwnName name{std::string(row.glob), {}, row.is_counter};
    for (std::string_view left = row.whole; !left.empty();) {
      const std::size_t end = std::min(left.find('|'), left.size());
      name.wholes.push_back(modelmap::WholeShape::parse(left.substr(0, end)));
      left.remove_prefix(std::min(end + 1, left.size()));
    }
    names.push_back(std::move(name));
  }
  return names;
}

const std::vector<OwnName>& own_names() {
  static const std::vector<OwnName> names = read_rows();
  return names;
}

std::optional<std::int64_t> number(std::string_view text, const modelmap::Variables& variables) {
  return known_number(modelmap::Expression::parse(text), variables);
}

Role role_of(const modelmap::WholeShape& whole) {
  const std::string unit = whole.unit ? whole.unit->text() : std::string();
  if (!whole.cut) return Role::kOther;
  if (unit == "vocab") return Role::kEmbedding;
  if (unit == "experts") return Role::kExperts;
  return whole.lengths.size() == 1 ? Role::kVector : Role::kProjection;
}

/// Whether both have the same last dimension. For other shapes it is unknown which dimensions
/// correspond.
bool has_same_direction(const modelmap::WholeShape& a, const modelmap::WholeShape& b) {
  const bool is_vector = a.lengths.size() == 1 && b.lengths.size() == 1;
  return a.cut == b.cut && (is_vector || a.lengths.back().text() == b.lengths.back().text());
}

bool is_cut_one_way(const modelmap::WholeShape& whole) {
  switch (role_of(whole)) {
    case Role::kProjection:
    case Role::kEmbedding:
    case Role::kVector:
      return true;
    case Role::kOther:
      return whole.lengths.size() == 1;
    case Role::kExperts:
    case Role::kCounter:
      break;
  }
  return false;
}

}  // namespace

KnownParameters::KnownParameters(const std::optional<modelmap::ModelConfig>& config,
                                 const std::vector<modelmap::ModelMap>& maps,
                                 const std::vector<std::string>& names)
    : families_(maps), names_of_family_(families_.count()), variables_(maps.size() + 1) {
  if (config) {
    for (modelmap::Variables& variables : variables_) variables.config = *config;
  }
  for (std::size_t map = 0; map < maps.size(); ++map) variables_[map].table = maps[map].variables;
  for (const std::string& name : names) {
    std::set<std::size_t> families;
    for (const FamilyName& found : families_.find(name)) families.insert(found.family);
    for (const std::size_t family : families) ++names_of_family_[family];
  }
  fewest_layers_ = number("layers", variables_.back());
  if (fewest_layers_)
    most_layers_ = *fewest_layers_ + number("mtp_layers", variables_.back()).value_or(0);
}

const std::optional<Shape>& KnownParameters::shape_by(const modelmap::WholeShape& whole,
                                                      std::size_t map) {
  const auto [found, is_new] = shapes_.try_emplace(std::pair(&whole, map));
  if (is_new) found->second = known_shape(whole, variables_[map]);
  return found->second;
}

/// Those of the families that have most names of the set: of those for which the configuration has
/// the numbers, if it has them for any.
std::vector<KnownParameters::Alternative> KnownParameters::alternatives_of(
    const std::string& name) {
  std::vector<Alternative> all;
  std::pair<bool, std::size_t> best;
  const auto rank_of = [&](const Alternative& one) {
    return std::pair(one.shape.has_value(), names_of_family_[one.family]);
  };
  for (const FamilyName& found : families_.find(name)) {
    if (found.whole == nullptr) continue;
    all.push_back({found.whole, shape_by(*found.whole, found.family / 2), found.family});
    best = std::max(best, rank_of(all.back()));
  }
  std::erase_if(all, [&](const Alternative& one) { return rank_of(one) < best; });
  for (const OwnName& own : own_names()) {
    if (!glob_match(own.glob, name)) continue;
    for (const modelmap::WholeShape& whole : own.wholes) {
      all.push_back({&whole, shape_by(whole, plain()), families_.count(), own.is_counter});
    }
  }
  return all;
}

KnownParameter KnownParameters::known_by(const std::vector<Alternative>& alternatives) const {
  KnownParameter known;
  const Alternative& first = alternatives.front();
  known.role = first.is_counter ? Role::kCounter : role_of(*first.whole);
  known.usual_cut = first.whole->cut ? static_cast<int>(*first.whole->cut) : -1;
  known.one_way = !first.is_counter && is_cut_one_way(*first.whole);
  if (known.role == Role::kEmbedding) known.padded = known.usual_cut;
  const bool is_of_map = first.family < families_.count();
  const std::size_t map = is_of_map ? first.family / 2 : plain();
  if (first.whole->unit)
    known.units = known_number(*first.whole->unit, variables_[map]).value_or(0);
  std::set<std::string> formulas;
  std::set<std::string> networks;
  for (const Alternative& one : alternatives) {
    const bool has_map = one.family < families_.count();
    const std::string network = has_map ? families_.network_of(one.family) : "MindFormers";
    if (networks.insert(network).second) {
      known.network += (known.network.empty() ? "" : " and ") + network;
    }
    const std::string formula = one.whole->formula();
    if (formulas.insert(formula).second) {
      known.formula += (known.formula.empty() ? "" : " | ") + formula;
    }
    known.one_way = known.one_way && has_same_direction(*first.whole, *one.whole);
    // Of a square matrix both ways are one.
    const auto same = std::find(known.shapes.begin(), known.shapes.end(), one.shape);
    if (one.shape && same == known.shapes.end()) known.shapes.push_back(*one.shape);
  }
  return known;
}

const KnownParameter* KnownParameters::find(const std::string& name) {
  const std::vector<Alternative> alternatives = alternatives_of(name);
  if (alternatives.empty()) return nullptr;
  KnownParameter known = known_by(alternatives);
  const std::string key = known.network + ": " + known.formula + ": " +
                          std::to_string(static_cast<int>(known.role)) +
                          std::to_string(known.usual_cut);
  return &known_.try_emplace(key, std::move(known)).first->second;
}

}  // namespace reshardfs
