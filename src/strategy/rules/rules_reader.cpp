// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "base/toml/toml_table.h"
#include "strategy/rules/rules_document.h"
#include "strategy/rules/rules_rule.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kMaxStages = 4096;

constexpr const char* kAxesForm = "a list of \"name=size\", such as [\"dp=2\", \"tp=4\"]";

std::string without_spaces(const std::string& text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out), [](char c) { return c != ' '; });
  return out;
}

bool is_axis_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

void read_axis(const toml::node& node, RulesDocument& document) {
  const std::string text = without_spaces(text_at("axes", node, kAxesForm));
  const std::size_t equals = text.find('=');
  std::string name = text.substr(0, equals);
  const auto size = equals == std::string::npos
                        ? std::nullopt
                        : parse_number(std::string_view(text).substr(equals + 1));
  if (!is_axis_name(name) || !size || *size < 1) {
    fail_at_line(line_of(node), "'axes' has '" + printable(text) + "', expected " + kAxesForm);
  }
  const auto& names = document.axis_names;
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    fail_at_line(line_of(node), "axis '" + name + "' appears twice");
  }
  document.axis_names.push_back(std::move(name));
  document.device_matrix.push_back(*size);
}

void read_axes(const toml::node& node, RulesDocument& document) {
  for (const toml::node& axis : list_at("axes", node, kAxesForm)) read_axis(axis, document);
  if (document.axis_names.empty()) {
    fail_at_line(line_of(node), "'axes' is empty, expected " + std::string(kAxesForm));
  }
  try {
    check_layout(Layout{.device_matrix = document.device_matrix});
  } catch (const Error& error) {
    fail_at_line(line_of(node), error.message());
  }
}

UnmatchedParameters read_unmatched(const toml::node& node) {
  constexpr const char* kForm = "\"unknown\", \"replicate\" or \"error\"";
  const std::string text = text_at("unmatched", node, kForm);
  if (text == "unknown") return UnmatchedParameters::kUnknown;
  if (text == "replicate") return UnmatchedParameters::kReplicate;
  if (text == "error") return UnmatchedParameters::kError;
  fail_at_line(line_of(node), "'unmatched' is '" + printable(text) + "', expected " + kForm);
}

/// @return the optimizer cut of rules that say nothing about it.
std::int64_t read_devices(const toml::node& node, RulesDocument& document) {
  if (!node.is_table()) fail_wrong_type("devices", node, "a table [devices]");
  const TomlTable table(*node.as_table(), "[devices]",
                        {"axes", "stages", "optimizer", "unmatched", "optional"});
  read_axes(table.at("axes"), document);
  if (const toml::node* stages = table.find("stages")) {
    document.stage_count = number_at("stages", *stages, 1, kMaxStages);
  }
  if (const toml::node* unmatched = table.find("unmatched")) {
    document.unmatched = read_unmatched(*unmatched);
  }
  document.optional = read_flag(table, "optional", false);
  const toml::node* optimizer = table.find("optimizer");
  return optimizer == nullptr ? 0 : read_optimizer("optimizer", *optimizer);
}

void check_list_of_stages(const toml::node& node, std::string_view key, std::size_t entries,
                          std::int64_t stage_count) {
  if (static_cast<std::int64_t>(entries) == stage_count) return;
  fail_at_line(line_of(node),
               "'" + std::string(key) + "' has " +
                   (entries == 1 ? "1 entry" : std::to_string(entries) + " entries") +
                   ", but [devices] has " +
                   counted(static_cast<std::size_t>(stage_count), "stage"));
}

void place_layer(LayerPlacement& placement, std::int64_t layer, std::int64_t stage,
                 std::int64_t line) {
  auto& stages = placement.stage_of_layer;
  const auto index = static_cast<std::size_t>(layer);
  if (index >= stages.size()) stages.resize(index + 1, -1);
  if (stages[index] != -1) {
    fail_at_line(line, "layer " + std::to_string(layer) + " is listed twice");
  }
  stages[index] = stage;
}

/// split = [16, 16]: so many layers for each stage, in order.
void read_split(const toml::node& node, LayerPlacement& placement, std::int64_t stage_count) {
  const toml::array& list =
      list_at("split", node, "a list with the number of layers of each stage, such as [16, 16]");
  check_list_of_stages(node, "split", list.size(), stage_count);
  std::int64_t stage = 0;
  for (const toml::node& entry : list) {
    const auto before = static_cast<std::int64_t>(placement.stage_of_layer.size());
    const std::int64_t count = number_at("split", entry, 0, kMaxLayers - before);
    placement.stage_of_layer.resize(static_cast<std::size_t>(before + count), stage);
    ++stage;
  }
}

/// stages = [[0, 1, 4, 5], [2, 3, 6, 7]]: the layers of each stage.
void read_stages_of_layers(const toml::node& node, LayerPlacement& placement,
                           std::int64_t stage_count) {
  constexpr const char* kForm = "a list with the layers of each stage, such as [[0, 2], [1, 3]]";
  const toml::array& list = list_at("stages", node, kForm);
  check_list_of_stages(node, "stages", list.size(), stage_count);
  std::int64_t stage = 0;
  for (const toml::node& layers : list) {
    for (const toml::node& layer : list_at("stages", layers, kForm)) {
      place_layer(placement, number_at("stages", layer, 0, kMaxLayers - 1), stage, line_of(layer));
    }
    ++stage;
  }
}

LayerPlacement read_layers(const toml::table& source, const RulesDocument& document) {
  const std::int64_t stage_count = document.stage_count;
  const TomlTable table(source, "[[layers]]", {"match", "split", "stages", "optional"});
  LayerPlacement placement;
  placement.line = table.line();
  placement.optional = read_flag(table, "optional", document.optional);
  const toml::node& match = table.at("match");
  const std::string text =
      text_at("match", match, "a text with {n}, such as \"model.layers.{n}.\"");
  const std::size_t hole = text.find("{n}");
  if (hole == std::string::npos || hole == 0 || text.find("{n}", hole + 1) != std::string::npos) {
    fail_at_line(line_of(match), "'match' of [[layers]] is '" + printable(text) +
                                     "', expected a text with {n} in it once and not at its start, "
                                     "such as \"model.layers.{n}.\"");
  }
  placement.before = text.substr(0, hole);
  placement.after = text.substr(hole + 3);
  const toml::node* split = table.find("split");
  const toml::node* stages = table.find("stages");
  if ((split == nullptr) == (stages == nullptr)) {
    fail_at_line(table.line(), "[[layers]] needs either 'split' or 'stages'");
  }
  if (split != nullptr) read_split(*split, placement, stage_count);
  if (stages != nullptr) read_stages_of_layers(*stages, placement, stage_count);
  return placement;
}

RulesDocument read_document(const toml::table& parsed) {
  const TomlTable file(parsed, "the file", {"devices", "rule", "layers"});
  RulesDocument document;
  const toml::node* devices = file.find("devices");
  if (devices == nullptr) fail_at_line(1, "the table [devices], which names the axes, is missing");
  const std::int64_t default_optimizer = read_devices(*devices, document);
  for_each_table(file, "layers", [&](const toml::table& table) {
    document.layers.push_back(read_layers(table, document));
  });
  for_each_table(file, "rule", [&](const toml::table& table) {
    document.rules.push_back(read_rule(table, document, default_optimizer));
  });
  return document;
}

}  // namespace

RulesDocument read_rules(const std::string& file, const std::string& text) {
  return read_toml(file, text, [&](const toml::table& parsed) {
    RulesDocument document = read_document(parsed);
    document.file = file;
    return document;
  });
}

}  // namespace reshardfs
