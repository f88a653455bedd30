// SPDX-License-Identifier: Apache-2.0
#include "cli/words/map_arguments.h"

#include <cctype>
#include <filesystem>

#include "reshardfs/error.h"

#include "cli/words/check_arguments.h"
#include "conversion/installed_maps.h"
#include "conversion/option_words.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

/// "Of A: show ..." of a command with two sources.
std::string of_side(const std::string& side, std::string text) {
  if (side.empty()) return text;
  text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
  return "For " + std::string(side == "a" ? "A" : "B") + ": " + text;
}

}  // namespace

void MapArguments::add_to(CLI::App& command, const std::string& side) {
  const std::string prefix = side.empty() ? "--" : "--" + side + "-";
  add_texts(command, prefix + "map", maps,
            of_side(side,
                    "Show the tensors with the names and fusions of another model family: an "
                    "installed map (see 'reshardfs map list') or a .toml file of rules "
                    "(repeatable; each map reads what the previous one shows)"))
      ->type_name("NAME|FILE.toml");
  add_variables_to(command, side);
}

void MapArguments::add_variables_to(CLI::App& command, const std::string& side) {
  if (!side.empty()) prefix_ = "--" + side + "-";
  add_texts(command, prefix_ + "map-direction", directions,
            of_side(side,
                    "Direction of the map, once per --map; auto, the default, follows the source's "
                    "tensor names"))
      ->type_name("forward|inverse|auto")
      ->check(CLI::IsMember(all_words(kMapDirectionWords)).description(""));
  add_text(command, prefix_ + "model-config", model_config,
           of_side(side,
                   "The model's config.json, which gives maps their sizes, or its directory, whose "
                   "tokenizer and related files then also appear in hf/; by default, the source's "
                   "own config.json"))
      ->type_name("DIR|FILE");
  add_text(
      command, prefix_ + "training-config", training_config,
      of_side(side,
              "The YAML file of the training job whose checkpoint the map reads or makes: it "
              "states the layouts that no shape shows; by default, YAML files beside the source "
              "that set them"))
      ->type_name("FILE.yaml");
  add_texts(
      command, prefix_ + "map-var", variables,
      of_side(side,
              "Set a variable of a map, e.g. interleaved=0, or the release of the framework that "
              "trains, e.g. release=1.7 (repeatable)"))
      ->type_name("NAME=VALUE");
}

ModelMapOptions MapArguments::options() const {
  ModelMapOptions options;
  for (const std::string& map : maps) {
    options.maps.push_back(is_map_path(map) ? absolute_location(map).string() : map);
  }
  options.directions = values_of(kMapDirectionWords, directions);
  options.model_config =
      existing_path(model_config, prefix_ + "model-config", "a config.json or a directory with one")
          .value_or(std::filesystem::path());
  options.training_config =
      existing_path(training_config, prefix_ + "training-config", "the YAML file of a training job")
          .value_or(std::filesystem::path());
  options.variables = variables;
  return options;
}

ModelMapOptions MapArguments::options_of_maps() const {
  if (maps.empty() && !model_config.empty()) {
    throw Error(ErrorKind::kUsage, prefix_ + "model-config without " + prefix_ + "map")
        .hint("give the map whose sizes the configuration states");
  }
  return options();
}

}  // namespace reshardfs
