// SPDX-License-Identifier: Apache-2.0
#include "conversion/stated_model/model_numbers.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "modelmap/scope.h"
#include "modelmap/training_settings.h"
#include "modelmap/variables.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

constexpr std::string_view kText = "text_config";
/// More layers than any model has.
constexpr std::int64_t kMostLayers = 100'000;

/// The kind of each layer, where config.json has a list of words.
std::vector<std::string> kinds_in(const JsonValue& config) {
  std::vector<std::string> kinds;
  auto list = config.find("layer_types");
  if (const auto text = config.find(kText); !list && text) list = text->find("layer_types");
  if (!list || !list->is_list()) return kinds;
  for (const JsonValue kind : *list) kinds.emplace_back(kind.text().value_or(""));
  return kinds;
}

/// Whether the two levels of a configuration contradict each other: which one counts, only the
/// model's class knows.
bool differ(const JsonValue& top, const JsonValue& text) {
  constexpr std::array<std::string_view, 6> kKeys{"num_hidden_layers",   "hidden_size",
                                                  "num_attention_heads", "num_key_value_heads",
                                                  "vocab_size",          "intermediate_size"};
  return std::any_of(kKeys.begin(), kKeys.end(), [&](std::string_view key) {
    const auto outer = top.find(key);
    const auto inner = text.find(key);
    return outer && inner && !is_same_json(outer, inner);
  });
}

ModelNumbers numbers_in(const modelmap::ModelConfig& config, const std::string& file) {
  ModelNumbers numbers;
  numbers.file = file;
  numbers.type = config.model_type();
  numbers.shapes = ModelShapes(config);
  modelmap::Variables variables;
  variables.config = config;
  const auto layers = modelmap::Scope(variables).known("layers");
  if (layers && *layers > 0 && *layers <= kMostLayers) numbers.layers = layers;
  return numbers;
}

bool states_none(const ModelNumbers& numbers) {
  return !numbers.layers && numbers.shapes.empty();
}

void add_number(const std::string& key, std::int64_t number, std::string& json) {
  json += (json.empty() ? "{\"" : ",\"") + key + "\":" + std::to_string(number);
}

/// @param json of add_number().
std::optional<ModelNumbers> numbers_of_any_type(const std::string& json, const std::string& file) {
  if (json.empty()) return std::nullopt;
  ModelNumbers numbers = numbers_in(modelmap::ModelConfig::parse(json + "}", file), file);
  if (states_none(numbers)) return std::nullopt;
  numbers.rule = &untyped_layer_rule();
  return numbers;
}

/// Whether what a program writes of an object lacks its end.
bool is_cut_short(const std::string& text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return true;
  return text[first] == '{' && text[text.find_last_not_of(kBlanks)] != '}';
}

std::string unread_words(const std::filesystem::path& file, const std::string& text,
                         const Error& error) {
  const std::string what =
      is_cut_short(text)
          ? std::string(kEndsEarly) + ": it is still being written, or was not copied whole"
          : "cannot be read as the object of a config.json (" + error.message() + ")";
  return printable(file.string()) + " " + what + "; nothing is compared with it";
}

}  // namespace

std::optional<ModelNumbers> numbers_of_config(const std::filesystem::path& file,
                                              const SourceTreePtr& tree, std::string* unread) {
  if (file.empty() || path_kind(file, tree) != PathKind::kOther) return std::nullopt;
  std::string text;
  modelmap::ModelConfig config;
  const std::string name = file.filename().string();
  try {
    text = read_small_file(file, modelmap::kMaxConfigBytes, tree);
    config = modelmap::ModelConfig::parse(text, name);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    if (unread != nullptr) *unread = unread_words(file, text, error);
    return std::nullopt;
  }
  ModelNumbers numbers = numbers_in(config, name);
  numbers.rule = name == "params.json" && numbers.type.empty() ? &untyped_layer_rule()
                                                               : layer_rule(numbers.type);
  if (const auto json = JsonDocument::parse(text)) {
    const JsonValue top = json->value();
    numbers.kinds = kinds_in(top);
    const auto inner = top.find(kText);
    const auto has = [&](std::string_view key) {
      return top.find(key).has_value() || (inner && inner->find(key).has_value());
    };
    numbers.is_quantized = has("quantization_config") || has("quantization");
    numbers.is_draft = has("draft_vocab_size");
    if (inner && differ(top, *inner)) numbers.rule = nullptr;
  }
  if (states_none(numbers)) return std::nullopt;
  return numbers;
}

std::optional<ModelNumbers> numbers_of_training(const std::filesystem::path& file,
                                                const SourceTreePtr& tree) {
  static const std::set<std::string> keys{
      "num_layers", "num_hidden_layers",   "hidden_size", "num_heads",  "num_attention_heads",
      "n_kv_heads", "num_key_value_heads", "head_dim",    "vocab_size", "intermediate_size"};
  if (file.empty()) return std::nullopt;
  const std::string name = file.filename().string();
  const auto training = modelmap::TrainingConfig::parse(
      read_small_file(file, modelmap::kMaxTrainingConfigBytes, tree), file.string(), keys);
  std::string json;
  for (const std::string& key : keys) {
    if (const auto number = training.find(key)) add_number(key, *number, json);
  }
  return numbers_of_any_type(json, name);
}

std::optional<ModelNumbers> numbers_of_arguments(const CheckpointSet& set) {
  constexpr std::string_view kPrefix = "args.";
  const std::vector<SavedValue>& values = set.beside().values;
  // The reader of these files has compared num_layers, which counts them.
  const bool has_noop_layers =
      std::any_of(values.begin(), values.end(), [](const SavedValue& value) {
        return value.name == "args.noop_layers" && value.what != "None";
      });
  std::string json;
  for (const SavedValue& value : values) {
    const auto number = parse_number(value.what);
    if (!value.name.starts_with(kPrefix) || !number) continue;
    if (has_noop_layers && value.name == "args.num_layers") continue;
    add_number(value.name.substr(kPrefix.size()), *number, json);
  }
  return numbers_of_any_type(json, "its arguments");
}

}  // namespace reshardfs
