// SPDX-License-Identifier: Apache-2.0
#include "conversion/map_candidates.h"

#include <iterator>
#include <map>
#include <utility>

#include "base/text/glob.h"
#include "conversion/installed_maps.h"

namespace reshardfs {
namespace {

using modelmap::Direction;
using modelmap::ModelMap;
using modelmap::SourceTensor;

bool takes(const modelmap::Pattern& pattern, const std::string& name) {
  // Which layer it is does not matter.
  return pattern.match(name, pattern.plain_numberings()).has_value();
}

/// Sets what the rules of a map take that takes all.
void count_rules(const ModelMap& map, Direction direction, const std::vector<SourceTensor>& tensors,
                 const std::vector<std::string>& model_types, Candidate& candidate) {
  std::set<std::pair<std::string, std::int64_t>> idle;
  std::set<std::pair<std::string, std::int64_t>> used;
  for (std::size_t i = 0; i < map.rules.size(); ++i) {
    const modelmap::MapRule& rule = map.rules[i];
    if (i == map.rest || !modelmap::is_for_types(rule, model_types)) continue;
    const std::vector<modelmap::Pattern> patterns =
        direction == Direction::kForward ? rule.from : std::vector{rule.to};
    const bool is_used = std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) {
      return std::any_of(tensors.begin(), tensors.end(),
                         [&](const SourceTensor& tensor) { return takes(pattern, tensor.name); });
    });
    if (is_used) candidate.rules.emplace(*rule.place.file, rule.place.line, rule.to.text());
    if (is_used || !rule.optional) {
      (is_used ? used : idle).emplace(*rule.place.file, rule.place.line);
    }
  }
  // In one of several blocks is enough: they may be forms of one layer.
  candidate.idle_rules = static_cast<std::size_t>(std::count_if(
      idle.begin(), idle.end(), [&](const auto& place) { return !used.contains(place); }));
}

bool has_any(const std::vector<std::string>& list, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  });
}

/// A map that extends another one has its rules: where these take all, both are one.
void join_equal_maps(std::vector<Candidate>& candidates) {
  std::vector<Candidate> kept;
  for (Candidate& candidate : candidates) {
    const auto same = std::find_if(kept.begin(), kept.end(), [&](const Candidate& other) {
      return other.rules == candidate.rules && other.shows == candidate.shows;
    });
    if (same == kept.end()) {
      kept.push_back(std::move(candidate));
    } else if (candidate.map.size() < same->map.size()) {
      *same = std::move(candidate);  // the one that is extended
    }
  }
  candidates = std::move(kept);
}

/// Packed experts are how transformers holds a model in memory: nobody wants them unless asked.
bool packs_experts(const Candidate& candidate) {
  return candidate.reads == kHuggingFaceSide && candidate.shows.starts_with(kHuggingFaceSide);
}

}  // namespace

bool is_for(const std::vector<std::string>& types, bool keeps_rest,
            const std::vector<std::string>& model_types) {
  if (!keeps_rest) return types.empty() || has_any(types, model_types);
  return !model_types.empty() && has_any(types, {model_types.front()});
}

bool is_between(const ModelMap& map) {
  return map.from_side != kHuggingFaceSide && map.to_side != kHuggingFaceSide;
}

Candidate try_map(const ModelMap& map, Direction direction,
                  const std::vector<SourceTensor>& tensors, const modelmap::ModelConfig& config) {
  const bool forward = direction == Direction::kForward;
  Candidate candidate{.map = map.name(),
                      .types = map.types,
                      .keeps_rest = map.rest.has_value(),
                      .is_auto = map.is_auto,
                      .reads = forward ? map.from_side : map.to_side,
                      .shows = target_side(map, direction)};
  const NameGlobs& drops = forward ? map.drop_from : map.drop_to;
  modelmap::MapOptions options;
  options.config = config;
  const std::vector<bool> taken = taken_names(map, direction, tensors, options);
  const std::vector<bool> kept = kept_names(map, direction, tensors, options);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (taken[i]) {
      ++candidate.taken;
    } else if (!kept[i] && candidate.left.empty() && !matches_any(drops, tensors[i].name)) {
      candidate.left = tensors[i].name;
    }
  }
  if (candidate.left.empty()) count_rules(map, direction, tensors, config.model_types(), candidate);
  return candidate;
}

std::vector<Candidate> candidates_for(const std::vector<ModelMap>& maps,
                                      const std::vector<SourceTensor>& tensors,
                                      const modelmap::ModelConfig& config) {
  std::vector<Candidate> all;
  for (const ModelMap& map : maps) {
    if (is_between(map)) continue;
    for (const Direction direction : {Direction::kForward, Direction::kInverse}) {
      all.push_back(try_map(map, direction, tensors, config));
    }
  }
  return all;
}

std::vector<Candidate> complete_ones(const std::vector<Candidate>& all, const KnownSource& known) {
  std::vector<Candidate> complete;
  std::copy_if(all.begin(), all.end(), std::back_inserter(complete), [](const Candidate& one) {
    return one.taken > 0 && one.left.empty() && one.is_auto && !packs_experts(one);
  });
  const std::vector<std::string> types = known.config.model_types();
  const auto states_type = [&](const Candidate& one) { return has_any(one.types, types); };
  const bool is_known = std::any_of(all.begin(), all.end(), states_type);
  std::erase_if(complete, [&](const Candidate& one) {
    // One that keeps names takes any: only the type tells that they are meant.
    if (one.keeps_rest && one.idle_rules > 0) return true;
    return (is_known || one.keeps_rest) && !is_for(one.types, one.keeps_rest, types);
  });
  if (!known.program.empty()) {
    prefer(complete, [&](const Candidate& one) { return one.reads.starts_with(known.program); });
  }
  join_equal_maps(complete);
  return complete;
}

std::vector<FittingMap> best_of(const std::vector<Candidate>& complete) {
  std::map<std::string, std::size_t> least;  // by side
  for (const Candidate& candidate : complete) {
    const auto [known, is_new] = least.try_emplace(candidate.shows, candidate.idle_rules);
    if (!is_new) known->second = std::min(known->second, candidate.idle_rules);
  }
  std::vector<FittingMap> maps;
  for (const Candidate& candidate : complete) {
    if (candidate.idle_rules > least.at(candidate.shows)) continue;
    maps.push_back({candidate.map, candidate.shows, candidate.idle_rules});
  }
  // Of a family the one that others extend.
  std::stable_sort(maps.begin(), maps.end(), [](const FittingMap& a, const FittingMap& b) {
    return a.map.size() < b.map.size();
  });
  return maps;
}

}  // namespace reshardfs
