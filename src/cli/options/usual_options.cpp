// SPDX-License-Identifier: Apache-2.0
#include "cli/options/usual_options.h"

#include <array>

#include "cli/options/table.h"

namespace reshardfs {
namespace {

struct UsualOptions {
  std::string_view command;
  std::array<std::string_view, 5> names;
};

constexpr std::array kUsual = {
    UsualOptions{"mount", {"src-strategy", "dst-strategy", "map", "step", "views"}},
    UsualOptions{"run", {"src-strategy", "dst-strategy", "map", "step", "views"}},
    UsualOptions{"export", {"src-strategy", "dst-strategy", "map", "views", "checksum"}},
    UsualOptions{"hash", {"src-strategy", "dst-strategy", "map", "step", "views"}},
    UsualOptions{"cat", {"src-strategy", "dst-strategy", "map", "param", "npy"}},
    UsualOptions{"plan", {"src-strategy", "dst-strategy", "map", "rank", "json"}},
    UsualOptions{"report", {"src-strategy", "dst-strategy", "map", "step", "views"}},
    UsualOptions{"inspect", {"src-strategy", "step", "include", "stats", "json"}},
    UsualOptions{"verify", {"src-strategy", "step", "against", "include", "json"}},
    UsualOptions{"diff", {"a-strategy", "b-strategy", "name-map", "include", "json"}},
    UsualOptions{"strategy convert", {"source", "output", "stage-layers", "map", "force"}},
    UsualOptions{"strategy check", {"source", "src-strategy", "map", "training-config", "map-var"}},
    UsualOptions{"strategy guess", {"model-config", "step", "full", "output", "force"}},
    UsualOptions{"map check",
                 {"source", "src-strategy", "model-config", "training-config", "json"}},
    UsualOptions{"map show",
                 {"source", "param", "src-strategy", "model-config", "training-config"}},
};

}  // namespace

std::vector<const Option*> usual_options(const Command& command) {
  std::vector<const Option*> options;
  for (const UsualOptions& usual : kUsual) {
    if (usual.command != command.name) continue;
    for (const std::string_view name : usual.names) options.push_back(find_option(command, name));
  }
  return options;
}

}  // namespace reshardfs
