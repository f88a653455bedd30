// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/proven_sizes.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "conversion/model_maps.h"
#include "conversion/sized_source.h"
#include "conversion/stated_model/model_numbers.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

bool cuts_any(const Strategy& strategy) {
  for (std::int64_t s = 0; s < strategy.stage_count(); ++s) {
    for (const auto& [name, layout] : strategy.stage(s)) {
      const auto& map = layout.tensor_map;
      if (std::any_of(map.begin(), map.end(), [](const auto& axes) { return !axes.empty(); })) {
        return true;
      }
    }
  }
  return false;
}

std::optional<ProvenSizes> try_sizes(const std::string& text, const SizesQuestion& question,
                                     const ModelMaps& maps) {
  try {
    Strategy strategy = sized_source(parse_derivation(text), *question.set, maps);
    if (!cuts_any(strategy)) return std::nullopt;
    return ProvenSizes{
        text, DiffSide(std::make_shared<const SourceTable>(question.set, std::move(strategy)))};
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<ProvenSizes> proven_sizes(const SizesQuestion& question) {
  try {
    const ModelMaps maps(ModelMapOptions(), question.path, question.linkless_root);
    const auto numbers = numbers_of_config(
        maps.config_file(), linkless_tree_of(question.linkless_root, maps.config_file()));
    const bool has_all = numbers && numbers->layers && question.layers &&
                         static_cast<std::uint64_t>(*numbers->layers) == *question.layers;
    if (!has_all) return std::nullopt;
    std::optional<ProvenSizes> only;
    for (std::int64_t tp = 2; tp <= question.devices; ++tp) {
      if (question.devices % tp != 0) continue;
      const std::string stages =
          question.stages == 1 ? std::string() : fmt::format(",pp={}", question.stages);
      auto proven = try_sizes(fmt::format("tp={}{}", tp, stages), question, maps);
      if (!proven) continue;
      if (only) return std::nullopt;
      only = std::move(proven);
    }
    return only;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace reshardfs
