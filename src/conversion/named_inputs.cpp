// SPDX-License-Identifier: Apache-2.0
#include "conversion/named_inputs.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <tuple>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/file_name.h"
#include "conversion/installed_maps.h"
#include "conversion/model_maps.h"
#include "conversion/source_opening.h"
#include "conversion/strategy_input.h"
#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNameMember = "name";
constexpr const char* kContentMember = "content";
constexpr const char* kVersionMember = "version";

/// A path that the user has named, and how.
struct Named {
  std::string option;
  fs::path path;
};

std::vector<Named> named_paths(const ConversionOptions& options) {
  std::vector<Named> all;
  const auto add = [&](const char* option, const fs::path& path) {
    if (!path.empty()) all.push_back({option, without_trailing_slash(path)});
  };
  add("--src-strategy", options.source.strategy.value_or(""));
  add("--dst-strategy", options.dst_strategy.value_or(""));
  add("--name-map", options.name_map);
  add("--model-config", options.source.maps.model_config);
  add("--training-config", options.source.maps.training_config);
  const std::vector<std::string>& maps = options.source.maps.maps;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    // In the order of their use.
    all.push_back({"--map " + std::to_string(i + 1), normal_location(find_map(maps[i]).file)});
  }
  return all;
}

/// The names of a file: it may have several parts, such as both strategies.
std::vector<std::string> names_of(const fs::path& path, const std::vector<Named>& named,
                                  const fs::path& source) {
  std::vector<std::string> names;
  for (const Named& place : named) {
    if (!is_inside_by_name(path, place.path)) continue;
    const bool is_file = path == place.path;
    names.push_back(place.option +
                    (is_file ? "" : " " + path.lexically_relative(place.path).string()));
  }
  if (!names.empty()) return names;
  const bool inside = is_inside_by_name(path, source);
  return {inside ? path.lexically_relative(source).string() : path.filename().string()};
}

bool has(const JsonValue& list, const JsonValue& file) {
  for (const JsonValue other : list) {
    if (other.is_same(file)) return true;
  }
  return false;
}

bool has_name(const JsonValue& list, const JsonValue& file) {
  for (const JsonValue other : list) {
    if (other.is_object() && is_same_json(other.find(kNameMember), file.find(kNameMember)))
      return true;
  }
  return false;
}

std::string name_of(const JsonValue& file) {
  const auto name = file.is_object() ? file.find(kNameMember) : std::nullopt;
  return "'" + printable(std::string(name ? name->text().value_or("") : "")) + "'";
}

struct NamedInput {
  std::string name;
  const Input* input = nullptr;
};

}  // namespace

void write_inputs(JsonWriter& json, const char* key, const ConversionOptions& options,
                  const std::vector<Input>& inputs) {
  const std::vector<Named> named = named_paths(options);
  const fs::path source = without_trailing_slash(options.source.path);
  std::vector<NamedInput> all;
  for (const Input& input : inputs) {
    for (std::string& name : names_of(input.path, named, source)) {
      all.push_back({std::move(name), &input});
    }
  }
  std::sort(all.begin(), all.end(), [](const NamedInput& a, const NamedInput& b) {
    return std::tie(a.name, a.input->content) < std::tie(b.name, b.input->content);
  });
  json.objects(key, all, [&](const NamedInput& input) {
    json.member(kNameMember, input.name);
    if (!input.input->content.empty()) json.member(kContentMember, input.input->content);
    if (!input.input->version.empty()) json.member(kVersionMember, input.input->version);
  });
}

std::string difference_of_inputs(const JsonValue& old, const JsonValue& now) {
  for (const JsonValue file : now) {
    if (has(old, file)) continue;
    if (!has_name(old, file)) return "it has no file " + name_of(file);
    return "file " + name_of(file) +
           (file.find(kVersionMember) ? " has been changed or replaced"
                                      : " has different contents");
  }
  for (const JsonValue file : old) {
    if (!has(now, file)) return "it was made with a file " + name_of(file);
  }
  return {};
}

std::vector<Input> inputs_of_options(const ConversionOptions& options) {
  const auto inputs = std::make_shared<Inputs>();
  const fs::path root = linkless_root(options.source);
  const StrategyInput source = SourceOpening::read_strategy(options.source, inputs);
  const StrategyInput target(options.dst_strategy, options.dst_sizes, root, inputs);
  if (!options.name_map.empty()) NameMap::load(options.name_map, recording(nullptr, inputs));
  const ModelMaps maps(options.source.maps, options.source.path, root, nullptr, inputs);
  return inputs->list();
}

}  // namespace reshardfs
