// SPDX-License-Identifier: Apache-2.0
/// What maps use of a config.json.
#include <map>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_reader.h"
#include "modelmap/variables.h"

namespace reshardfs::modelmap {
namespace {

/// In front of the keys of vision_config.
constexpr std::string_view kVision = "vision_";
/// In front of the keys of per_layer_config.
constexpr std::string_view kPerLayer = "per_layer_";

/// The list that the reader stands at; nothing if it has other things than numbers and texts.
std::optional<ModelConfig::List> read_list(JsonReader& reader) {
  ModelConfig::List list;
  bool is_plain = true;
  reader.enter();
  while (reader.next()) {
    const JsonKind kind = reader.kind();
    if (kind == JsonKind::kBoolean || kind == JsonKind::kInteger) {
      list.push_back({reader.integer(), {}});
    } else if (kind == JsonKind::kText) {
      list.push_back({std::nullopt, std::string(reader.text())});
    } else {
      is_plain = false;
    }
  }
  return is_plain ? std::optional(std::move(list)) : std::nullopt;
}

/// Numbers of single layers, under the layer's number: a key in which all of these agree.
void add_layer_numbers(JsonReader& reader, std::map<std::string, std::int64_t>& numbers) {
  std::set<std::string> differing;
  reader.enter();
  while (reader.next()) {
    if (reader.kind() != JsonKind::kObject) continue;
    reader.enter();
    while (reader.next()) {
      if (reader.kind() != JsonKind::kBoolean && reader.kind() != JsonKind::kInteger) continue;
      const std::string key = std::string(kPerLayer) + std::string(reader.key());
      const std::int64_t number = reader.integer();
      if (numbers.try_emplace(key, number).first->second != number) differing.insert(key);
    }
  }
  for (const std::string& key : differing) numbers.erase(key);
}

}  // namespace

/// The member that the reader stands at. Of keys that stand twice the last counts.
void ModelConfig::Level::add(JsonReader& reader) {
  const std::string key(reader.key());
  numbers.erase(key);
  lists.erase(key);
  texts.erase(key);
  const JsonKind kind = reader.kind();
  if (kind == JsonKind::kBoolean || kind == JsonKind::kInteger) {
    numbers[key] = reader.integer();
  } else if (kind == JsonKind::kText) {
    texts[key] = reader.text();
  } else if (kind == JsonKind::kList) {
    if (auto list = read_list(reader)) lists[key] = *std::move(list);
  } else if (kind == JsonKind::kObject && key == "per_layer_config") {
    add_layer_numbers(reader, numbers);
  }
}

ModelConfig ModelConfig::parse(const std::string& text, std::string file) {
  if (text.size() > kMaxConfigBytes) {
    throw Error(ErrorKind::kBadInput, "config.json is larger than 16 MiB");
  }
  JsonReader reader(text);
  if (reader.kind() != JsonKind::kObject) {
    throw Error(ErrorKind::kBadInput, "it is not a JSON object");
  }
  ModelConfig config;
  config.file_ = std::move(file);
  reader.enter();
  while (reader.next()) {
    Level* const inner = reader.key() == "text_config"     ? &config.text_
                         : reader.key() == "vision_config" ? &config.vision_
                                                           : nullptr;
    if (inner != nullptr) *inner = Level();
    if (inner == nullptr || reader.kind() != JsonKind::kObject) {
      config.top_.add(reader);
      continue;
    }
    reader.enter();
    while (reader.next()) inner->add(reader);
  }
  reader.finish();
  const auto type = config.top_.texts.find("model_type");
  if (type != config.top_.texts.end()) config.model_type_ = type->second;
  return config;
}

std::vector<std::string> ModelConfig::model_types() const {
  std::vector<std::string> types;
  for (const Level* level : {&top_, &text_}) {
    const auto found = level->texts.find("model_type");
    if (found != level->texts.end()) types.push_back(found->second);
  }
  return types;
}

void ModelConfig::state_model_type(const std::string& type) {
  top_.texts["model_type"] = type;
  text_.texts.erase("model_type");
  model_type_ = type;
}

std::optional<std::int64_t> ModelConfig::find(const std::string& key) const {
  for (const Level* level : {&top_, &text_}) {
    const auto found = level->numbers.find(key);
    if (found != level->numbers.end()) return found->second;
  }
  if (!key.starts_with(kVision)) return std::nullopt;
  const auto found = vision_.numbers.find(key.substr(kVision.size()));
  return found == vision_.numbers.end() ? std::nullopt : std::optional(found->second);
}

const ModelConfig::List* ModelConfig::find_list(const std::string& key) const {
  for (const Level* level : {&top_, &text_}) {
    const auto found = level->lists.find(key);
    if (found != level->lists.end()) return &found->second;
  }
  return nullptr;
}

std::optional<std::string> ModelConfig::find_text(const std::string& key) const {
  for (const Level* level : {&top_, &text_}) {
    const auto found = level->texts.find(key);
    if (found != level->texts.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace reshardfs::modelmap
