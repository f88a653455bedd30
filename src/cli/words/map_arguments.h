// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "reshardfs/model_map.h"

namespace reshardfs {

/// The options of model maps.
struct MapArguments {
  std::vector<std::string> maps;
  std::vector<std::string> directions;
  std::string model_config;
  std::string training_config;
  std::vector<std::string> variables;

  /// @param side of a command with two sources: "a" for --a-map and so on; empty: there is one.
  void add_to(CLI::App& command, const std::string& side = {});
  /// Without --map, for a command that takes one map as its argument.
  void add_variables_to(CLI::App& command, const std::string& side = {});
  /// Paths made absolute.
  /// @throws Error kMissing for a configuration that is not there.
  ModelMapOptions options() const;
  /// For a command that has nothing but maps to use them for.
  /// @throws Error kUsage for options without a map, too.
  ModelMapOptions options_of_maps() const;

 private:
  std::string prefix_ = "--";
};

}  // namespace reshardfs
