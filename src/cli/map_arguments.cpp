// SPDX-License-Identifier: Apache-2.0
#include "cli/map_arguments.h"

#include <filesystem>

#include "cli/check_arguments.h"
#include "report/option_words.h"
#include "view/installed_maps.h"

namespace reshardfs {

void MapArguments::add_to(CLI::App& command, const std::string& side) {
  if (!side.empty()) prefix_ = "--" + side + "-";
  const std::string of_side =
      side.empty() ? "" : "Of " + std::string(side == "a" ? "A" : "B") + ": ";
  add_texts(command, prefix_ + "map", maps,
            of_side + (side.empty() ? "Show" : "show") +
                " the tensors under the names and fusions of another model family: a file of rules "
                "or an installed map (repeatable: each map takes what the one before it shows; "
                "'reshardfs map list' lists them)")
      ->type_name("NAME|FILE.toml");
  add_texts(command, prefix_ + "map-direction", directions,
            of_side + (side.empty() ? "Which" : "which") +
                " way to read a map; default: the names in the source tell (once for each map)")
      ->type_name("forward|inverse")
      ->check(CLI::IsMember({"forward", "inverse", "auto"}).description(""));
  add_text(command, prefix_ + "model-config", model_config,
           of_side + (side.empty() ? "The" : "the") +
               " model's config.json, from which maps take sizes; of a directory, its tokenizer "
               "and other files are shown in hf/, too; default: the source's own config.json")
      ->type_name("DIR|FILE");
  add_texts(command, prefix_ + "map-var", variables,
            of_side + (side.empty() ? "Set" : "set") +
                " a variable of a map, such as 'interleaved=0' (repeatable)")
      ->type_name("NAME=VALUE");
}

ModelMapOptions MapArguments::options() const {
  ModelMapOptions options;
  for (const std::string& map : maps) {
    options.maps.push_back(is_map_path(map) ? std::filesystem::absolute(map).string() : map);
  }
  options.directions = values_of(kMapDirectionWords, directions);
  options.model_config =
      existing_path(model_config, prefix_ + "model-config", "a config.json or a directory with one")
          .value_or(std::filesystem::path());
  options.variables = variables;
  return options;
}

}  // namespace reshardfs
