// SPDX-License-Identifier: Apache-2.0
#include "modelmap/family_stages.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "modelmap/family_counts.h"

namespace reshardfs {
namespace {

using modelmap::MapPlace;
using modelmap::Numberings;
using modelmap::Pattern;
using modelmap::Scope;
using modelmap::StagePlace;
using modelmap::StageStatement;

/// "mindformers-llama.toml, line 12"
std::string place_words(const MapPlace& place) {
  return printable(std::filesystem::path(*place.file).filename().string()) + ", line " +
         std::to_string(place.line);
}

std::string unknown_by(const MapPlace& place) {
  return "networks differ, says " + place_words(place);
}

/// A number that stands at the end of a name's beginning, as a pattern has it.
struct FoundNumber {
  std::int64_t number = 0;
  std::size_t begin = 0;
};

/// What a pattern takes at the end of `text`, from the beginning or behind a dot.
/// @return the value of the capture, and where its digits begin; a number of 0 without one.
std::optional<FoundNumber> match_end(const Pattern& pattern, std::string_view text,
                                     const Numberings& numberings, const std::string& capture) {
  for (std::size_t begin = 0; begin < text.size();) {
    if (const auto values = pattern.match(text.substr(begin), numberings)) {
      const auto& names = pattern.names();
      const auto slot = std::find(names.begin(), names.end(), capture) - names.begin();
      const std::int64_t number = static_cast<std::size_t>(slot) < names.size()
                                      ? (*values)[static_cast<std::size_t>(slot)].number
                                      : 0;
      return FoundNumber{number, begin + pattern.literal_start().size()};
    }
    const std::size_t dot = text.find('.', begin);
    if (dot == std::string_view::npos) break;
    begin = dot + 1;
  }
  return std::nullopt;
}

/// Nothing: the configuration lacks a number.
std::optional<bool> holds(const modelmap::Conditions& conditions, const Scope& scope) {
  try {
    return std::all_of(conditions.begin(), conditions.end(),
                       [&](const auto& condition) { return scope.evaluate(*condition) != 0; });
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return std::nullopt;
  }
}

/// With {nth(...)}, the number in the name counts: pipelines cut the layers of the pattern.
std::optional<Numberings> known_numberings(const Pattern& pattern, const Scope& scope) {
  const auto& captures = pattern.captures();
  const bool has_symbols =
      std::any_of(captures.begin(), captures.end(), [](const auto& one) { return one.is_nth(); });
  if (has_symbols) return pattern.plain_numberings();
  try {
    return pattern.numberings(scope.lookup());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return std::nullopt;
  }
}

bool is_same(const FamilyStage& a, const FamilyStage& b) {
  return a.first == b.first && a.last == b.last && a.every == b.every && a.layer == b.layer &&
         a.stack == b.stack;
}

/// @throws nothing for statements of layers: these have a number.
FamilyStage fixed(StagePlace place) {
  FamilyStage stage;
  stage.first = place == StagePlace::kFirst;
  stage.last = place == StagePlace::kLast;
  stage.every = place == StagePlace::kEvery;
  return stage;
}

}  // namespace

FamilyStages::FamilyStages(const std::vector<modelmap::ModelMap>& maps,
                           const modelmap::ModelConfig& config)
    : families_(maps) {
  for (const modelmap::ModelMap& map : maps) known_.push_back(family_of(map, config));
}

FamilyStages::Family FamilyStages::family_of(const modelmap::ModelMap& map,
                                             const modelmap::ModelConfig& config) {
  Family family;
  family.variables.config = config;
  family.variables.table = map.variables;
  for (const auto& [capture, counts] : map.family.counts) {
    modelmap::Count count;
    state_count(map, family.variables, capture, nullptr, count);
    if (count.stated) family.counts.emplace(capture, *count.stated);
  }
  const Scope scope(family.variables);
  for (const modelmap::LayerBlock& block : map.blocks) {
    auto& numberings = family.numberings.emplace_back();
    for (const bool is_from : {true, false})
      numberings[is_from] = known_numberings(block.of(is_from), scope);
  }
  return family;
}

FamilyStages::Stage FamilyStages::of_layer(const FamilyName& found, const std::string& capture,
                                           std::int64_t layer, std::string stack) const {
  FamilyStage stage;
  stage.layer = layer;
  stage.stack = std::move(stack);
  const auto& counts = family(found).counts;
  if (const auto count = counts.find(capture); count != counts.end()) stage.layers = count->second;
  return Stage::stated(std::move(stage), {});  // find() gives it no other origin
}

std::optional<FamilyStages::Stage> FamilyStages::stated_by_blocks(const FamilyName& found,
                                                                  std::string_view prefix) const {
  const auto& blocks = families_.map_of(found.family).blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const modelmap::LayerBlock& block = blocks[i];
    const StageStatement& stage = block.stage.of(found.is_from());
    if (stage.place == StagePlace::kUnstated) continue;
    const auto& numberings = family(found).numberings[i].at(found.is_from());
    if (!numberings) continue;
    const auto number = match_end(block.of(found.is_from()), prefix, *numberings, stage.capture);
    if (!number) continue;
    Scope scope(family(found).variables);
    if (stage.place == StagePlace::kLayer) scope.bind(stage.capture, number->number);
    const std::optional<bool> is_meant = holds(block.when, scope);
    if (!is_meant || !*is_meant) continue;
    if (stage.place == StagePlace::kUnknown) return Stage::unknown(unknown_by(block.place));
    if (stage.place != StagePlace::kLayer) {
      return Stage::stated(fixed(stage.place), place_words(block.place));
    }
    return of_layer(found, stage.capture, number->number,
                    std::string(prefix.substr(0, number->begin)));
  }
  return std::nullopt;
}

std::optional<FamilyStages::Stage> FamilyStages::stated_by(const FamilyName& found,
                                                           std::string_view name) const {
  const StageStatement& own = found.tensors->stage;
  switch (own.place) {
    case StagePlace::kUnstated:
      return found.tensors->in_block ? stated_by_blocks(found, name.substr(0, found.prefix))
                                     : std::nullopt;
    case StagePlace::kUnknown:
      return Stage::unknown(unknown_by(found.tensors->place));
    case StagePlace::kLayer:
      return of_layer(found, own.capture, *found.layer, found.stack);
    case StagePlace::kFirst:
    case StagePlace::kLast:
    case StagePlace::kEvery:
      break;
  }
  return Stage::stated(fixed(own.place), place_words(found.tensors->place));
}

FamilyStages::Stage FamilyStages::with_tied(FamilyStage stage, const std::vector<FamilyName>& found,
                                            std::string_view name,
                                            const HasTensor& has_tensor) const {
  for (const FamilyName& one : found) {
    const std::string_view prefix = name.substr(0, one.prefix);
    for (const modelmap::MapAlias& alias : families_.map_of(one.family).aliases) {
      const bool is_of_it = alias.is_from == one.is_from() && alias.name.is_literal() &&
                            alias.of.text() == one.tensors->name;
      if (!is_of_it) continue;
      const std::string& other = alias.name.text();
      if (has_tensor(other) || has_tensor(std::string(prefix) + other)) continue;
      const std::optional<bool> is_tied = holds(alias.when, Scope(family(one).variables));
      const std::string quoted = "'" + printable(other) + "'";
      if (!is_tied)
        return Stage::unknown("no config.json tells whether " + quoted + " is tied to it");
      if (!*is_tied) continue;
      switch (alias.stage.place) {
        case StagePlace::kFirst:
          stage.first = true;
          break;
        case StagePlace::kLast:
          stage.last = true;
          break;
        case StagePlace::kEvery:
          stage.every = true;
          break;
        case StagePlace::kUnstated:
        case StagePlace::kLayer:
        case StagePlace::kUnknown:
          return Stage::unknown(quoted + " is tied to it, and no map states under which name the " +
                                "stage of that one has it (" + place_words(alias.place) + ")");
      }
    }
  }
  return Stage::stated(std::move(stage), place_words(found.front().tensors->place));
}

/// Of a rule for any names, which have its block in front.
std::optional<FamilyStages::Stage> FamilyStages::stated_by_maker(const MapPlace& maker,
                                                                 std::string_view name) const {
  const std::vector<FamilyName> makers = families_.of_rule(maker);
  for (std::size_t end = name.rfind('.'); end != std::string_view::npos;
       end = end == 0 ? end - 1 : name.rfind('.', end - 1)) {
    for (FamilyName found : makers) {
      found.prefix = end + 1;
      if (found.tensors->stage.place == StagePlace::kLayer) continue;
      if (auto stage = stated_by(found, name)) return stage;
    }
  }
  return std::nullopt;
}

Known<FamilyStage> FamilyStages::find(const std::string& name, const MapPlace* made_by,
                                      const HasTensor& has_tensor) const {
  std::vector<FamilyName> all = families_.find(name);
  // What makes the tensor states more than what others do.
  const auto makes = [&](const FamilyName& found) {
    return made_by != nullptr && found.is_of(*made_by) && stated_by(found, name).has_value();
  };
  const bool is_of_any =
      made_by != nullptr && std::none_of(all.begin(), all.end(), [&](const FamilyName& found) {
        return found.is_of(*made_by);
      });
  if (is_of_any) {
    if (auto stage = stated_by_maker(*made_by, name)) return *std::move(stage);
  }
  if (std::any_of(all.begin(), all.end(), makes)) {
    std::erase_if(all, [&](const FamilyName& found) { return !makes(found); });
  }
  std::optional<FamilyStage> agreed;
  std::vector<FamilyName> stating;
  for (const FamilyName& found : all) {
    const std::optional<Stage> stage = stated_by(found, name);
    if (!stage) continue;
    if (!*stage) return *stage;
    if (agreed && !is_same(*agreed, **stage)) return Stage::unknown("maps state different stages");
    if (agreed && agreed->layers && (**stage).layers && agreed->layers != (**stage).layers) {
      return Stage::unknown("maps state different numbers of layers");
    }
    const auto layers = agreed && agreed->layers ? agreed->layers : (**stage).layers;
    agreed = **stage;
    agreed->layers = layers;
    stating.push_back(found);
  }
  if (!agreed) return Stage::unknown(kNoStageStated);
  if (agreed->layer) return Stage::stated(*std::move(agreed), {});
  return with_tied(*std::move(agreed), stating, name, has_tensor);
}

}  // namespace reshardfs
