// SPDX-License-Identifier: Apache-2.0
#include "strategy/derive/layer_stages.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "strategy/rules/rules_document.h"

namespace reshardfs {
namespace {

std::vector<std::int64_t> spread(const StageLayers& counts) {
  std::vector<std::int64_t> stages;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    stages.insert(stages.end(), static_cast<std::size_t>(counts[stage]),
                  static_cast<std::int64_t>(stage));
  }
  return stages;
}

}  // namespace

StageLayers balanced_layers(std::int64_t layers, std::int64_t stages) {
  StageLayers counts(static_cast<std::size_t>(stages), layers / stages);
  for (std::int64_t stage = 0; stage < layers % stages; ++stage) {
    ++counts[static_cast<std::size_t>(stage)];
  }
  return counts;
}

StageLayers parse_stage_layers(const std::string& text) {
  StageLayers counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto number = parse_number(std::string_view(text).substr(begin, end - begin));
    if (!number || *number < 0 || *number > kMaxLayers) {
      throw Error(ErrorKind::kUsage,
                  "--stage-layers is '" + printable(text) +
                      "', expected the number of layers of each stage, such as 10,9,9,8");
    }
    counts.push_back(*number);
    begin = end + 1;
  }
  return counts;
}

std::string to_text(const StageLayers& counts) {
  std::string text;
  for (const std::int64_t number : counts) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

std::vector<std::int64_t> stages_of_layers(std::int64_t layers, std::int64_t stages,
                                           const StageLayers& wanted) {
  const std::string option = "--stage-layers " + to_text(wanted);
  const auto count = static_cast<std::int64_t>(wanted.size());
  if (count != stages) {
    throw Error(ErrorKind::kUsage, option + ": " + counted(wanted.size(), "number") +
                                       " for pp=" + std::to_string(stages))
        .hint("give the number of layers of each stage");
  }
  const std::int64_t sum = std::accumulate(wanted.begin(), wanted.end(), std::int64_t{0});
  if (sum != layers) {
    throw Error(ErrorKind::kUsage, option + ": the sum is " + std::to_string(sum) +
                                       ", but the model has " +
                                       counted(static_cast<std::size_t>(layers), "layer"));
  }
  return spread(wanted);
}

std::vector<std::int64_t> equal_stages_of_layers(std::int64_t layers, std::int64_t stages) {
  if (layers % stages == 0) return spread(balanced_layers(layers, stages));
  Error error(ErrorKind::kUsage, "pp=" + std::to_string(stages) + " does not divide the " +
                                     counted(static_cast<std::size_t>(layers), "layer") +
                                     " of the model");
  if (layers < stages) throw error.hint("there are fewer layers than stages");
  throw error.hint("--stage-layers states how many each stage has, for example " +
                   to_text(balanced_layers(layers, stages)));
}

std::vector<std::int64_t> balanced_stages_of_layers(std::int64_t layers, std::int64_t stages) {
  return spread(balanced_layers(layers, stages));
}

}  // namespace reshardfs
