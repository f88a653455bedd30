// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/statement.h"

#include <algorithm>
#include <array>
#include <optional>

#include "reshardfs/error.h"

#include "base/text/name_expression.h"
#include "base/text/text.h"
#include "modelmap/variables.h"
#include "storage/local/directory.h"
#include "storage/small_file.h"

namespace reshardfs {
namespace {

constexpr const char* kBeside = "hf_quant_config.json";

std::optional<JsonDocument> document_of(const std::filesystem::path& path,
                                        const SourceTreePtr& tree) {
  if (path.empty() || path_kind(path, tree) != PathKind::kOther) return std::nullopt;
  auto document = JsonDocument::parse(read_small_file(path, modelmap::kMaxConfigBytes, tree));
  if (!document || !document->value().is_object()) return std::nullopt;
  return document;
}

[[noreturn]] void refuse_statement(ErrorKind kind, const std::string& file,
                                   const std::string& message) {
  throw Error(kind, message).in_file(file);
}

/// A number of columns or bits: null and what is not there are 0.
std::int64_t length_of(const JsonValue& object, std::string_view key) {
  const auto found = object.find(key);
  if (!found || !found->integer()) return 0;
  return std::max<std::int64_t>(*found->integer(), 0);
}

std::vector<std::string> texts_of(const JsonValue& list) {
  std::vector<std::string> texts;
  if (!list.is_list()) return texts;
  for (const JsonValue value : list) {
    if (value.text()) texts.emplace_back(*value.text());
  }
  return texts;
}

/// Whether something is stated there: not null, and no empty object.
bool states_any(const JsonValue& object, std::string_view key) {
  const auto found = object.find(key);
  return found && !found->is_null() && (!found->is_object() || found->size() > 0);
}

WeightGroup::Strategy strategy_of(const std::string& file, const std::string& group,
                                  const JsonValue& weights) {
  using Strategy = WeightGroup::Strategy;
  constexpr std::array<std::pair<std::string_view, Strategy>, 5> kStrategies{
      {{"tensor", Strategy::kTensor},
       {"channel", Strategy::kChannel},
       {"group", Strategy::kGroup},
       {"block", Strategy::kBlock},
       {"tensor_group", Strategy::kTensorGroup}}};
  const std::string stated = stated_text(weights, "strategy");
  for (const auto& [name, strategy] : kStrategies) {
    if (stated == name) return strategy;
  }
  refuse_statement(ErrorKind::kUnsupported, file,
                   "the group '" + printable(group) +
                       "' of quantized weights has an unknown strategy: '" + printable(stated) +
                       "'");
}

WeightGroup group_from(const std::string& file, const JsonValue& object) {
  WeightGroup group;
  group.name = std::string(object.key());
  group.targets = texts_of(object["targets"]);
  const JsonValue weights = object["weights"];
  const std::string type = stated_text(weights, "type");
  group.is_float = type == "float";
  if (!group.is_float && type != "int") {
    refuse_statement(ErrorKind::kUnsupported, file,
                     "the group '" + printable(group.name) +
                         "' of quantized weights has an unknown type: '" + printable(type) + "'");
  }
  group.bits = length_of(weights, "num_bits");
  group.strategy = strategy_of(file, group.name, weights);
  group.group = length_of(weights, "group_size");
  const auto symmetric = weights["symmetric"].boolean();
  group.is_symmetric = !symmetric || *symmetric;
  if (group.strategy == WeightGroup::Strategy::kBlock) {
    std::vector<std::int64_t> lengths;
    for (const JsonValue length : weights["block_structure"]) {
      if (length.integer() && *length.integer() > 0) lengths.push_back(*length.integer());
    }
    if (lengths.size() != 2) {
      refuse_statement(
          ErrorKind::kBadInput, file,
          "the group '" + printable(group.name) + "' states no block_structure of two lengths");
    }
    group.block = {lengths[0], lengths[1]};
  }
  const bool has_groups = group.strategy == WeightGroup::Strategy::kGroup ||
                          group.strategy == WeightGroup::Strategy::kTensorGroup;
  if (has_groups && group.group == 0) {
    refuse_statement(
        ErrorKind::kBadInput, file,
        "the group '" + printable(group.name) + "' states no group_size of its weights");
  }
  return group;
}

}  // namespace

std::string stated_text(const JsonValue& object, std::string_view key) {
  const auto found = object.find(key);
  return found && found->text() ? std::string(*found->text()) : std::string();
}

JsonValue QuantizationStatement::value() const {
  if (file.empty()) return document.value();
  if (file.ends_with(kBeside)) return document.value()["quantization"];
  return quantizations_in(document.value()).front();
}

QuantizationStatement read_quantization(const std::filesystem::path& config,
                                        const SourceTreePtr& tree) {
  QuantizationStatement out;
  if (config.empty()) return out;
  if (auto document = document_of(config, tree)) {
    const std::vector<JsonValue> stated = quantizations_in(document->value());
    for (std::size_t i = 1; i < stated.size(); ++i) {
      if (stated[i].is_same(stated.front())) continue;
      throw Error(ErrorKind::kBadInput, "states two quantizations that differ")
          .in_file(config.string())
          .hint("keep the one that the weights have");
    }
    if (!stated.empty()) {
      out.method = stated_text(stated.front(), "quant_method");
      // No other method states blocks so.
      const auto block = stated.front().find("weight_block_size");
      if (out.method.empty() && block && !block->is_null()) out.method = "fp8";
      out.file = config.string();
      out.document = std::move(*document);
      return out;
    }
  }
  const std::filesystem::path beside = config.parent_path() / kBeside;
  if (auto document = document_of(beside, tree)) {
    if (!document->value()["quantization"].is_object()) return out;
    out.method = "modelopt";
    out.file = beside.string();
    out.document = std::move(*document);
  }
  return out;
}

bool WeightGroup::is_same_way(const WeightGroup& other) const {
  return is_float == other.is_float && bits == other.bits && strategy == other.strategy &&
         group == other.group && block == other.block && is_symmetric == other.is_symmetric;
}

/// "Linear", a module's name, or an expression behind "re:".
struct WeightGroups::Target {
  explicit Target(const std::string& stated, const std::string& file) : text(stated) {
    constexpr std::string_view kExpression = "re:";
    if (!text.starts_with(kExpression)) return;
    try {
      expression.emplace(std::string_view(text).substr(kExpression.size()));
    } catch (const Error& error) {
      refuse_statement(ErrorKind::kUnsupported, file,
                       "cannot use the expression '" + printable(text) +
                           "', which names modules: " + error.message());
    }
  }

  enum class Rank : std::uint8_t { kNone, kAll, kExpression, kName };
  Rank rank(std::string_view module) const {
    if (text == module) return Rank::kName;
    if (expression && expression->matches_beginning(module)) return Rank::kExpression;
    return text == "Linear" ? Rank::kAll : Rank::kNone;
  }

  std::string text;
  std::optional<NameExpression> expression{};
};

WeightGroups::WeightGroups(const QuantizationStatement& statement) : file_(statement.file) {
  const JsonValue stated = statement.value();
  for (const char* const more : {"transform_config", "sparsity_config"}) {
    if (!states_any(stated, more)) continue;
    refuse_statement(
        ErrorKind::kUnsupported, file_,
        std::string("states a ") + more + ", and its weights are not those of the model");
  }
  for (const JsonValue group : stated["config_groups"]) {
    if (states_any(group, "weights")) groups_.push_back(group_from(file_, group));
  }
  for (const WeightGroup& group : groups_) {
    for (const std::string& target : group.targets) {
      targets_.emplace_back(std::make_unique<Target>(target, file_), &group);
    }
  }
  for (const std::string& target : texts_of(stated["ignore"])) {
    ignored_.push_back(std::make_unique<Target>(target, file_));
  }
}

WeightGroups::~WeightGroups() = default;

bool WeightGroups::ignores(std::string_view module) const {
  return std::any_of(ignored_.begin(), ignored_.end(), [&](const auto& target) {
    return target->rank(module) != Target::Rank::kNone;
  });
}

const WeightGroup* WeightGroups::group_of(std::string_view module) const {
  const WeightGroup* found = nullptr;
  auto best = Target::Rank::kNone;
  for (const auto& [target, group] : targets_) {
    const Target::Rank rank = target->rank(module);
    if (rank == Target::Rank::kNone || rank < best) continue;
    if (rank == best && !found->is_same_way(*group)) {
      refuse_statement(ErrorKind::kUnsupported, file_,
                       "two groups state how the weights of '" + printable(std::string(module)) +
                           "' are quantized: '" + printable(found->name) + "' and '" +
                           printable(group->name) + "'");
    }
    if (rank > best) found = group;
    best = rank;
  }
  return found;
}

}  // namespace reshardfs
