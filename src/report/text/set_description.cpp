// SPDX-License-Identifier: Apache-2.0
#include "report/text/set_description.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/json/json_copy.h"
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
  return fmt::format("names of {} ({} {})", joined(model.networks, " and of "),
                     model.maps.size() == 1 ? "map" : "maps", joined(maps, ", "));
}

std::string model_text(const ModelFacts& model) {
  const std::string layers =
      model.layers ? counted(static_cast<std::size_t>(*model.layers), "layer") : std::string();
  const std::string pattern =
      model.layer_pattern.empty() ? "" : "HybridModel '" + model.layer_pattern + "'";
  return joined({config_text(model), names_text(model), layers, pattern}, "; ");
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
         " of the optimizer or the training job, by their names";
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

/// By name; of those that stand twice, the last.
void write_metadata(JsonWriter& json, const char* name, const StatedMetadata& metadata) {
  std::map<std::string_view, std::string_view> values;
  for (const auto& [key, value] : metadata) values[key] = value;
  json.open_object(name);
  for (const auto& [key, value] : values) {
    json.key(key);
    JsonReader reader(value);
    copy_json(reader, json);
  }
  json.close_object();
}

void write_model(JsonWriter& json, const ModelFacts& model) {
  json.open_object("model");
  json.texts("networks", model.networks);
  json.texts("maps", model.maps);
  json.member("model_type", model.model_type);
  json.texts("architectures", model.architectures);
  json.texts("quantization", model.quantization);
  json.member("quantization_by", model.quantization_by);
  json.member_or_null("layers", model.layers);
  json.member("hybrid_layer_pattern", model.layer_pattern);
  json.member("weights", model.weights);
  json.member("training_states", model.states);
  json.member_or_null("elements", model.elements);
  model.elements ? json.member("bytes", model.bytes) : json.null_member("bytes");
  json.close_object();
}

void write_layout(JsonWriter& json, const LayoutFacts& layout) {
  json.open_object("layout");
  json.numbers("ranks", layout.ranks);
  json.member_or_null("pp", layout.stages);
  json.member_or_null("devices_per_stage", layout.devices);
  json.member_or_null("tp", layout.tp);
  json.member_or_null("dp", layout.dp);
  layout.most_slices == 0 ? json.null_member("most_slices")
                          : json.member("most_slices", layout.most_slices);
  json.member("optimizer_cut", layout.optimizer_cut);
  json.member("by", layout.by);
  json.close_object();
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
  lines.add("missing", description.lacks);
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

std::string next_text(const std::vector<NextCommand>& commands) {
  if (commands.empty()) return {};
  std::string text = "\nnext:\n";
  for (const NextCommand& next : commands) {
    text += fmt::format("  # {}\n  {}\n", next.job, next.command);
  }
  return text;
}

void write_description(JsonWriter& json, const SetDescription& description) {
  json.open_object("description");
  json.member("kind", description.kind);
  json.member("format", description.format);
  json.texts("place", description.place);
  json.objects("written_by", description.written_by, [&](const Statement& writer) {
    json.member("what", writer.words);
    json.member("by", writer.by);
  });
  write_model(json, description.model);
  json.open_object("metadata");
  write_metadata(json, "headers", description.headers);
  write_metadata(json, "index", description.index);
  json.close_object();
  write_layout(json, description.layout);
  json.member("lacks", description.lacks);
  json.objects("strategies", description.strategies, [&](const NearStrategy& strategy) {
    json.member("path", strategy.path);
    json.member("fits", strategy.misfit.empty());
    json.member("reason", strategy.misfit);
    json.member("same_as", strategy.same_as);
  });
  json.open_list("next");
  for (const NextCommand& next : description.next) json.text(next.command);
  json.close_list();
  json.close_object();
}

}  // namespace reshardfs
