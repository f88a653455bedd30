// SPDX-License-Identifier: Apache-2.0
#include "report/text/set_description.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "base/rank_format.h"
#include "base/rank_list.h"
#include "base/text/text.h"
#include "report/text/model_tree_text.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

constexpr std::size_t kIndent = 12;

/// Lines with a label each.
class Lines {
 public:
  explicit Lines(std::size_t columns) : columns_(columns) {}

  void add(std::string_view label, const std::string& text) {
    if (text.empty()) return;
    text_ += wrapped(fmt::format("{:<{}}{}", label, kIndent, text), columns_, kIndent) + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::size_t columns_;
  std::string text_;
};

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (const std::string& part : parts) {
    if (!part.empty()) text += (text.empty() ? "" : std::string(between)) + part;
  }
  return text;
}

std::string words_of(const Statement& statement) {
  const std::string words = printable(statement.words);
  return statement.by.empty() ? words : fmt::format("{} ({})", words, printable(statement.by));
}

std::string writers_text(const std::vector<Statement>& writers) {
  std::vector<std::string> texts;
  for (const Statement& writer : writers) texts.push_back(words_of(writer));
  return texts.empty() ? "unknown" : joined(texts, "; ");
}

std::string config_text(const ModelFacts& model) {
  std::vector<std::string> names;
  for (const std::string& name : model.architectures) names.push_back(printable(name));
  if (!model.model_type.empty()) {
    names.push_back(fmt::format("model_type {}", printable(model.model_type)));
  }
  return names.empty() ? "" : joined(names, ", ") + " (config.json)";
}

std::string names_text(const ModelFacts& model) {
  constexpr std::size_t kShown = 4;
  if (model.networks.empty()) return {};
  std::vector<std::string> maps = model.maps;
  if (maps.size() > kShown) {
    maps.resize(kShown);
    maps.push_back(fmt::format("{} more", model.maps.size() - kShown));
  }
  return fmt::format("all names are those of {} ({} {})", joined(model.networks, " and of "),
                     model.maps.size() == 1 ? "map" : "maps", joined(maps, ", "));
}

std::string model_text(const ModelFacts& model) {
  const std::string layers =
      model.layers ? counted(static_cast<std::size_t>(*model.layers), "layer") : std::string();
  return joined({config_text(model), names_text(model), layers}, "; ");
}

std::string weights_text(const ModelFacts& model) {
  std::string text = counted(static_cast<std::size_t>(model.weights), "parameter");
  if (model.elements) {
    text +=
        fmt::format(", {} elements, {}", human_count(*model.elements), human_bytes(model.bytes));
  }
  return text;
}

std::string states_text(const ModelFacts& model) {
  if (model.states == 0) return "no states";
  return counted(static_cast<std::size_t>(model.states), "state") +
         " of the optimizer or of the training, by their names";
}

/// "pp=2, tp=4, dp=1"
std::string sizes_text(const LayoutFacts& layout) {
  if (layout.tp) {
    return fmt::format("tp={}, pp={}, dp={}", *layout.tp, layout.stages.value_or(1),
                       layout.dp.value_or(1));
  }
  if (layout.most_slices == 0) return {};
  return fmt::format("a weight is cut into {} at most",
                     counted(static_cast<std::size_t>(layout.most_slices), "slice"));
}

std::string layout_text(const LayoutFacts& layout) {
  if (layout.ranks.empty()) return {};
  std::string text = format_rank_list(layout.ranks);
  std::vector<std::string> facts;
  if (layout.stages && layout.devices) {
    facts.push_back(fmt::format("{} of {}",
                                counted(static_cast<std::size_t>(*layout.stages), "pipeline stage"),
                                counted(static_cast<std::size_t>(*layout.devices), "device")));
  }
  facts.push_back(sizes_text(layout));
  if (layout.optimizer_cut) facts.emplace_back("weights are cut once more for the optimizer");
  const std::string all = joined(facts, ", ");
  if (all.empty()) return text;
  return text + fmt::format(": {} ({})", all, printable(layout.by));
}

std::string near_text(const NearStrategy& strategy) {
  const std::string path = printable(strategy.path);
  if (!strategy.misfit.empty()) {
    return fmt::format("{} does not fit: {}", path, printable(strategy.misfit));
  }
  if (strategy.same_as.empty()) return path + " fits";
  return fmt::format("{} states the same as {}", path, printable(strategy.same_as));
}

std::string metadata_text(const SetDescription& description) {
  const auto keys = [](const StatedMetadata& metadata, const char* where) {
    std::vector<std::string> names;
    for (const auto& [key, value] : metadata) names.push_back(key);
    return names.empty() ? std::string() : name_list(names) + where;
  };
  return joined(
      {keys(description.headers, " (headers of the files)"), keys(description.index, " (index)")},
      "; ");
}

nlohmann::ordered_json metadata_json(const StatedMetadata& metadata) {
  nlohmann::json json = nlohmann::json::object();  // finds keys faster than one in order
  for (const auto& [key, value] : metadata) json[key] = nlohmann::json::parse(value);
  return json;
}

nlohmann::ordered_json statements_json(const std::vector<Statement>& statements) {
  auto list = nlohmann::ordered_json::array();
  for (const Statement& statement : statements) {
    list.push_back({{"what", statement.words}, {"by", statement.by}});
  }
  return list;
}

template <typename Number>
nlohmann::ordered_json or_null(const std::optional<Number>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json();
}

nlohmann::ordered_json model_json(const ModelFacts& model) {
  nlohmann::ordered_json json;
  json["networks"] = model.networks;
  json["maps"] = model.maps;
  json["model_type"] = model.model_type;
  json["architectures"] = model.architectures;
  json["quantization"] = model.quantization;
  json["quantization_by"] = model.quantization_by;
  json["layers"] = or_null(model.layers);
  json["weights"] = model.weights;
  json["training_states"] = model.states;
  json["elements"] = or_null(model.elements);
  json["bytes"] = model.elements ? nlohmann::ordered_json(model.bytes) : nlohmann::ordered_json();
  return json;
}

nlohmann::ordered_json layout_json(const LayoutFacts& layout) {
  nlohmann::ordered_json json;
  json["ranks"] = layout.ranks;
  json["pp"] = or_null(layout.stages);
  json["devices_per_stage"] = or_null(layout.devices);
  json["tp"] = or_null(layout.tp);
  json["dp"] = or_null(layout.dp);
  json["most_slices"] = layout.most_slices == 0 ? nlohmann::ordered_json()
                                                : nlohmann::ordered_json(layout.most_slices);
  json["optimizer_cut"] = layout.optimizer_cut;
  json["by"] = layout.by;
  return json;
}

}  // namespace

std::string description_text(const SetDescription& description, std::size_t columns) {
  Lines lines(columns);
  lines.add("format", description.format);
  for (const std::string& place : description.place) lines.add("place", place);
  lines.add("written by", writers_text(description.written_by));
  lines.add("model", model_text(description.model));
  lines.add("weights", weights_text(description.model));
  lines.add("quantized", description.quantized);
  lines.add("metadata", metadata_text(description));
  lines.add("training", states_text(description.model));
  lines.add("ranks", layout_text(description.layout));
  lines.add("lacks", description.lacks);
  for (const NearStrategy& strategy : description.strategies) {
    lines.add("strategy", near_text(strategy));
  }
  return lines.take();
}

std::string part_text(const std::string& path, const SetDescription& part, std::size_t columns) {
  constexpr std::size_t kIndentOfMore = 4;
  std::string text =
      wrapped(fmt::format("{}: {}", printable(path), part.format), columns, kIndentOfMore) + "\n";
  for (const std::string& place : part.place) text += wrapped(place, columns, kIndentOfMore) + "\n";
  return text;
}

std::string next_text(const std::vector<std::string>& commands) {
  if (commands.empty()) return {};
  std::string text = "\nnext:\n";
  for (const std::string& command : commands) text += "  " + command + "\n";
  return text;
}

nlohmann::ordered_json description_json(const SetDescription& description) {
  nlohmann::ordered_json json;
  json["kind"] = description.kind;
  json["format"] = description.format;
  json["place"] = description.place;
  json["written_by"] = statements_json(description.written_by);
  json["model"] = model_json(description.model);
  json["metadata"] = {{"headers", metadata_json(description.headers)},
                      {"index", metadata_json(description.index)}};
  json["layout"] = layout_json(description.layout);
  json["lacks"] = description.lacks;
  json["strategies"] = nlohmann::ordered_json::array();
  for (const NearStrategy& strategy : description.strategies) {
    json["strategies"].push_back({{"path", strategy.path},
                                  {"fits", strategy.misfit.empty()},
                                  {"reason", strategy.misfit},
                                  {"same_as", strategy.same_as}});
  }
  json["next"] = description.next;
  return json;
}

}  // namespace reshardfs
