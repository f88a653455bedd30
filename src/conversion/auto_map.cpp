// SPDX-License-Identifier: Apache-2.0
#include "conversion/auto_map.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "base/text/state_names.h"
#include "base/text/text.h"
#include "conversion/installed_maps.h"
#include "conversion/strategy_input.h"
#include "modelmap/mapping.h"

namespace reshardfs {
namespace {

using modelmap::Direction;
using modelmap::ModelMap;
using modelmap::SourceTensor;

constexpr const char* kAuto = "auto";

/// Where rules stand: file and line.
using Places = std::set<std::pair<std::string, std::int64_t>>;

/// One way to read an installed map, and what it makes of the names.
struct Candidate {
  std::string map{};
  std::string shows{};
  std::size_t taken = 0;
  std::string left{};  ///< the first name that it does not take; empty: it takes all
  Places rules{};      ///< of one that takes all: those that take any
};

bool takes(const modelmap::Pattern& pattern, const std::string& name) {
  // Which layer it is does not matter.
  const std::vector<std::int64_t> offsets(pattern.captures().size(), 0);
  return pattern.match(name, offsets).has_value();
}

Places rules_taking(const ModelMap& map, Direction direction,
                    const std::vector<SourceTensor>& tensors) {
  Places places;
  for (const modelmap::MapRule& rule : map.rules) {
    const std::vector<modelmap::Pattern> patterns =
        direction == Direction::kForward ? rule.from : std::vector{rule.to};
    const bool is_used = std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) {
      return std::any_of(tensors.begin(), tensors.end(),
                         [&](const SourceTensor& tensor) { return takes(pattern, tensor.name); });
    });
    if (is_used) places.emplace(*rule.place.file, rule.place.line);
  }
  return places;
}

Candidate try_map(const std::string& name, const ModelMap& map, Direction direction,
                  const std::vector<SourceTensor>& tensors) {
  Candidate candidate{name, target_side(map, direction), 0, {}};
  const NameGlobs& drops = direction == Direction::kForward ? map.drop_from : map.drop_to;
  const std::vector<bool> taken = taken_names(map, direction, tensors, {});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (taken[i]) {
      ++candidate.taken;
    } else if (candidate.left.empty() && !matches_any(drops, tensors[i].name)) {
      candidate.left = tensors[i].name;
    }
  }
  if (candidate.left.empty()) candidate.rules = rules_taking(map, direction, tensors);
  return candidate;
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

[[noreturn]] void refuse_none(const std::vector<Candidate>& candidates, std::size_t count) {
  const auto best =
      std::max_element(candidates.begin(), candidates.end(),
                       [](const auto& a, const auto& b) { return a.taken < b.taken; });
  std::string text = "--map auto: no installed map takes the names of the source";
  if (best != candidates.end() && best->taken > 0) {
    text += "; " + best->map + " takes " + std::to_string(best->taken) + " of " +
            counted(count, "tensor") + ", but not '" + printable(best->left) + "'";
  }
  throw Error(ErrorKind::kUsage, text).hint("'reshardfs map list' lists the maps");
}

[[noreturn]] void refuse_several(const std::vector<Candidate>& candidates) {
  std::string text = "--map auto: several installed maps take all names of the source: ";
  for (const Candidate& candidate : candidates) {
    text += (&candidate == &candidates.front() ? "" : ", ") + candidate.map + " (shows " +
            printable(candidate.shows) + ")";
  }
  throw Error(ErrorKind::kUsage, text).hint("choose one: --map " + candidates.front().map);
}

}  // namespace

std::string only_map_for(const std::vector<std::string>& names) {
  std::vector<SourceTensor> tensors;
  for (const std::string& name : names) {
    if (!is_training_state(name)) tensors.push_back({name});
  }
  std::vector<Candidate> all;
  for (const InstalledMap& installed : installed_maps()) {
    const ModelMap map = read_map(installed);
    for (const Direction direction : {Direction::kForward, Direction::kInverse}) {
      all.push_back(try_map(installed.name, map, direction, tensors));
    }
  }
  std::vector<Candidate> complete;
  std::copy_if(all.begin(), all.end(), std::back_inserter(complete),
               [](const Candidate& one) { return one.taken > 0 && one.left.empty(); });
  join_equal_maps(complete);
  if (complete.empty()) refuse_none(all, tensors.size());
  if (complete.size() > 1) refuse_several(complete);
  return complete.front().map;
}

void settle_auto_map(ModelMapOptions& maps, const std::filesystem::path& source,
                     const CheckpointOptions& options) {
  if (std::find(maps.maps.begin(), maps.maps.end(), kAuto) == maps.maps.end()) return;
  if (maps.maps.size() > 1) {
    throw Error(ErrorKind::kUsage,
                "--map auto stands for one map, and there are " + std::to_string(maps.maps.size()))
        .hint("name all of them");
  }
  std::vector<std::string> names;
  for (NamedShape& tensor : slice_shapes(CheckpointSet::open(source, options))) {
    names.push_back(std::move(tensor.name));
  }
  maps.maps = {only_map_for(names)};
}

}  // namespace reshardfs
