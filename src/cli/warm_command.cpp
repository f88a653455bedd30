// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/warming.h"

namespace reshardfs {

int run_warm(const Given& given) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& path : given.arguments_of("PATH")) paths.emplace_back(path);
  return warm_paths(paths, given.number_as<std::size_t>("jobs"), given.flag("quiet"));
}

}  // namespace reshardfs
