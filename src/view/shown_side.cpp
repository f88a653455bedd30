// SPDX-License-Identifier: Apache-2.0
#include "view/shown_side.h"

#include <algorithm>
#include <string>
#include <vector>

#include "reshardfs/error.h"

#include "conversion/auto_map.h"
#include "conversion/installed_maps.h"
#include "view/weights.h"

namespace reshardfs {
namespace {

using Sides = std::span<const std::string_view>;

bool is_among(Sides sides, std::string_view side) {
  return std::find(sides.begin(), sides.end(), side) != sides.end();
}

/// "--map A (or B, or C)" of the maps that show one of the sides; empty: there are none.
std::string maps_showing(const std::vector<FittingMap>& fitting, Sides sides) {
  std::string first;
  std::string others;
  for (const FittingMap& map : fitting) {
    if (!is_among(sides, map.shows)) continue;
    if (first.empty()) {
      first = "--map " + map.map;
    } else {
      others += (others.empty() ? "or " : ", or ") + map.map;
    }
  }
  return others.empty() ? first : first + " (" + others + ")";
}

/// What to add to the command line.
std::string helpful_maps(const std::vector<std::string>& names, const KnownSource& known,
                         Sides sides, bool has_maps) {
  const std::vector<FittingMap> fitting = fitting_maps(names, known);
  const std::string direct = maps_showing(fitting, sides);
  if (!direct.empty()) return (has_maps ? "add another map: " : "add ") + direct;
  const std::string list =
      "'reshardfs map list' lists the maps, of which one must show " + std::string(sides.front());
  const auto to_hub = std::find_if(fitting.begin(), fitting.end(), [](const FittingMap& map) {
    return map.shows == kHuggingFaceSide;
  });
  if (has_maps || to_hub == fitting.end()) return list;
  return "add --map " + to_hub->map +
         " --map MAP, where MAP is the family's map from Hugging Face; " + list;
}

}  // namespace

void require_shown_side(const ViewContext& context, std::string_view view, Sides sides) {
  const std::string words = "--views " + std::string(view);
  if (!is_among(sides, context.model.side)) {
    std::vector<std::string> names;
    const TakesParameter is_weight = weights_alone(context);
    for (const TargetParameter& parameter : context.target->parameters()) {
      if (is_weight(parameter)) names.push_back(parameter.source->name);
    }
    const bool has_maps = !context.model.side.empty();
    throw Error(
        ErrorKind::kUsage,
        words + " needs a map that shows " + std::string(sides.front()) + ", but " +
            (has_maps ? "the last one shows " + printable(context.model.side) : "there is no map"))
        .hint(helpful_maps(
            names, known_source(context.options.source, context.target->source().checkpoint()),
            sides, has_maps));
  }
  for (const TargetParameter& parameter : context.target->parameters()) {
    if (parameter.name == parameter.source->name) continue;
    throw Error(ErrorKind::kUsage, "--name-map changes a name that " + words + " needs")
        .for_parameter(parameter.source->name)
        .hint("leave --name-map out");
  }
}

}  // namespace reshardfs
