// SPDX-License-Identifier: Apache-2.0
#include "conversion/auto_map.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "base/text/state_names.h"
#include "base/text/text.h"
#include "base/text/wrapper_names.h"
#include "checkpoint/set_format.h"
#include "checkpoint/whole/lora_adapter.h"
#include "conversion/installed_maps.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "conversion/strategy_input.h"
#include "modelmap/mapping.h"
#include "modelmap/variables.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

using modelmap::Direction;
using modelmap::ModelMap;
using modelmap::SourceTensor;

constexpr const char* kAuto = "auto";

/// Where rules stand, and what they make: file, line and the names of targets.
using Places = std::set<std::tuple<std::string, std::int64_t, std::string>>;

/// One way to read an installed map, and what it makes of the names.
struct Candidate {
  std::string map{};
  std::vector<std::string> types{};  ///< of models that it is for; empty: of any
  bool keeps_rest = false;           ///< names that no rule takes
  bool is_auto = true;               ///< see ModelMap
  std::string reads{};
  std::string shows{};
  std::size_t taken = 0;
  std::string left{};  ///< the first name that it does not take; empty: it takes all
  Places rules{};      ///< of one that takes all: those that take any
  /// Of one that takes all: rules that should take some, but take none.
  std::size_t idle_rules = 0;
};

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

Candidate try_map(const std::string& name, const ModelMap& map, Direction direction,
                  const std::vector<SourceTensor>& tensors, const modelmap::ModelConfig& config) {
  const bool forward = direction == Direction::kForward;
  Candidate candidate{.map = name,
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

/// @param why no map fits; empty: not known.
[[noreturn]] void refuse_none(const std::vector<Candidate>& candidates, std::size_t count,
                              const std::string& why) {
  // One that takes all has been left out for another reason.
  const auto rank = [](const Candidate& one) { return one.left.empty() ? 0 : one.taken; };
  const auto best =
      std::max_element(candidates.begin(), candidates.end(),
                       [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  std::string text = "--map auto: no installed map takes the names of the source";
  if (best != candidates.end() && rank(*best) > 0) {
    text += "; " + best->map + " takes " + std::to_string(best->taken) + " of " +
            counted(count, "tensor") + ", but not '" + printable(best->left) + "'";
  }
  throw Error(ErrorKind::kUsage, text)
      .hint(why.empty() ? "'reshardfs map list' lists the maps" : why);
}

bool has_any(const std::vector<std::string>& list, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  });
}

/// @param keeps_rest what stands around a language model may have other names, too: the type has to
///        be that of the whole.
bool is_for(const std::vector<std::string>& types, bool keeps_rest,
            const std::vector<std::string>& model_types) {
  if (!keeps_rest) return types.empty() || has_any(types, model_types);
  return !model_types.empty() && has_any(types, {model_types.front()});
}

/// Refuses if a map that is only used where it is named is for the model and takes all names.
void require_name(const std::vector<Candidate>& candidates, const KnownSource& known) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& one) {
    return !one.is_auto && one.taken > 0 && one.left.empty() &&
           is_for(one.types, one.keeps_rest, known.config.model_types());
  });
  if (found == candidates.end()) return;
  throw Error(ErrorKind::kUsage, "--map auto: " + found->map +
                                     " takes all names of the source, and is not confirmed by " +
                                     "the program that has them")
      .hint("--map " + found->map + " uses it; 'reshardfs map list' says what is not certain");
}

/// @param complete take all names.
[[noreturn]] void refuse_other_types(const std::vector<Candidate>& complete,
                                     const KnownSource& known) {
  std::vector<std::string> maps;
  for (const Candidate& one : complete) {
    if (maps.empty() || maps.back() != one.map) maps.push_back(one.map);
  }
  throw Error(ErrorKind::kUsage,
              "--map auto: no installed map for model_type " +
                  name_list(known.config.model_types()) +
                  " takes the names of the source, but maps for others do: " + name_list(maps, 4))
      .hint("check the config.json, or name a map");
}

[[noreturn]] void refuse_several(std::vector<FittingMap> maps) {
  std::sort(maps.begin(), maps.end(),
            [](const FittingMap& a, const FittingMap& b) { return a.map < b.map; });
  std::string text = "--map auto: several installed maps take all names of the source: ";
  for (const FittingMap& map : maps) {
    text += (&map == &maps.front() ? "" : ", ") + map.map + " (shows " + printable(map.shows) + ")";
  }
  throw Error(ErrorKind::kUsage, text)
      .hint("name the one for the program that saved the source, or that reads the result");
}

/// Adds what config.json states.
void read_known(const std::filesystem::path& config, const std::filesystem::path& linkless_root,
                KnownSource& out) {
  const SourceTreePtr tree = linkless_tree_of(linkless_root, config);
  if (config.empty() || path_kind(config, tree) != PathKind::kOther) return;
  const std::string text = read_small_file(config, modelmap::kMaxConfigBytes, tree);
  try {
    out.config = modelmap::ModelConfig::parse(text, config.filename().string());
  } catch (const Error&) {
    // Who compares the model with it says what is wrong.
  }
}

/// See KnownSource.
std::string_view program_of(const CheckpointSet& set) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kPrograms{
      {{"megatron", "Megatron-Core torch_dist"},
       {"megatron_ranks", "Megatron-Core ranks"},
       {"checkpoint_2", "MindFormers"},
       {"meta", "Meta"}}};
  const SetFormat* const format = set.step_described_by();
  if (format == nullptr) {
    return set.files().front().path.extension() == ".ckpt" ? "MindFormers" : "";
  }
  const auto* const found = std::find_if(kPrograms.begin(), kPrograms.end(), [&](const auto& one) {
    return one.first == format->kind;
  });
  return found == kPrograms.end() ? "" : found->second;
}

/// Without the states of training.
std::vector<SourceTensor> tensors_of(const std::vector<std::string>& names) {
  std::vector<SourceTensor> tensors;
  for (const std::string& name : names) {
    if (!is_training_state(name)) tensors.push_back({name});
  }
  return tensors;
}

/// A map between two forms of one framework leads to none that serves or trains by itself.
bool is_between(const ModelMap& map) {
  return map.from_side != kHuggingFaceSide && map.to_side != kHuggingFaceSide;
}

std::vector<Candidate> candidates_for(const std::vector<SourceTensor>& tensors,
                                      const modelmap::ModelConfig& config) {
  std::vector<Candidate> all;
  for (const InstalledMap& installed : installed_maps()) {
    const ModelMap map = read_map(installed);
    if (is_between(map)) continue;
    for (const Direction direction : {Direction::kForward, Direction::kInverse}) {
      all.push_back(try_map(installed.name, map, direction, tensors, config));
    }
  }
  return all;
}

/// Leaves those that fit, if there are any.
template <typename Fits>
void prefer(std::vector<Candidate>& candidates, const Fits& fits) {
  if (std::any_of(candidates.begin(), candidates.end(), fits)) {
    std::erase_if(candidates, [&](const Candidate& one) { return !fits(one); });
  }
}

/// Packed experts are how transformers holds a model in memory: nobody wants them unless asked.
bool packs_experts(const Candidate& candidate) {
  return candidate.reads == kHuggingFaceSide && candidate.shows.starts_with(kHuggingFaceSide);
}

/// Those that take all names, for models of the type, from the program.
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

/// Of those that show the same side, the ones that lack the fewest tensors.
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

/// What a map makes of names that it takes all of; nothing if they are not those of a whole model.
std::vector<SourceTensor> names_made(const ModelMap& map, Direction direction,
                                     const std::vector<SourceTensor>& tensors) {
  modelmap::MapOptions options;
  options.direction = direction;
  options.shapes_alone = true;
  std::vector<SourceTensor> made;
  try {
    const modelmap::Mapping mapping = check_mapping(map, tensors, options);
    if (!mapping.problems.empty()) return {};
    for (const modelmap::TargetTensor& target : mapping.targets) made.push_back({target.name});
  } catch (const Error&) {
    return {};  // it needs shapes, or something that only the user can state
  }
  return made;
}

using Chains = std::vector<std::vector<std::string>>;

/// Maps to Hugging Face behind one from another form of the same framework, if the second ones lack
/// fewer tensors than the maps that fit by themselves: those behind the first map with any.
Chains better_chains(const std::vector<FittingMap>& alone, const std::vector<SourceTensor>& tensors,
                     const KnownSource& known) {
  std::optional<std::size_t> least;
  for (const FittingMap& map : alone) {
    least = least ? std::min(*least, map.idle_rules) : map.idle_rules;
  }
  if (least == std::optional<std::size_t>(0)) return {};
  std::vector<InstalledMap> all = installed_maps();
  std::stable_sort(all.begin(), all.end(), [](const InstalledMap& a, const InstalledMap& b) {
    return a.name.size() < b.name.size();
  });
  for (const InstalledMap& installed : all) {
    const ModelMap map = read_map(installed);
    // What sees is left out only if that is asked for.
    if (!is_between(map) || !map.is_auto || map.from_side.starts_with(kHuggingFaceSide)) continue;
    Chains chains;
    for (const Direction direction : {Direction::kForward, Direction::kInverse}) {
      const Candidate candidate = try_map(installed.name, map, direction, tensors, known.config);
      if (candidate.taken == 0 || !candidate.left.empty()) continue;
      const auto made = names_made(map, direction, tensors);
      for (const FittingMap& next :
           best_of(complete_ones(candidates_for(made, known.config), known))) {
        if (next.shows != kHuggingFaceSide || (least && next.idle_rules >= *least)) continue;
        chains.push_back({installed.name, next.map});
      }
    }
    if (!chains.empty()) return chains;
  }
  return {};
}

std::string chain_words(const std::vector<std::string>& chain) {
  std::string words;
  for (const std::string& map : chain) words += (words.empty() ? "--map " : " --map ") + map;
  return words;
}

[[noreturn]] void refuse_several(const Chains& chains) {
  std::string text = "--map auto: several installed maps take all names of the source: ";
  for (const auto& chain : chains) {
    text += (&chain == &chains.front() ? "" : ", ") + chain_words(chain);
  }
  throw Error(ErrorKind::kUsage, text).hint("name those for the model");
}

/// Leaves those that show what is asked for, or else Hugging Face's names, which ranks of any
/// format can have.
/// @throws Error kUsage if none is left.
void require_sides(std::vector<Candidate>& complete, const std::vector<std::string>& sides) {
  const std::vector<Candidate> all = complete;
  const auto is_asked_for = [&](const Candidate& one) {
    return std::any_of(sides.begin(), sides.end(), [&](const std::string& side) {
      return side == kHuggingFaceSide ? one.shows == kHuggingFaceSide : one.shows.starts_with(side);
    });
  };
  prefer(complete, is_asked_for);
  std::erase_if(complete, [&](const Candidate& one) {
    return !is_asked_for(one) && one.shows != kHuggingFaceSide;
  });
  if (!complete.empty() || all.empty()) return;
  std::string list;
  for (const Candidate& one : all) {
    list += (list.empty() ? "" : ", ") + one.map + " (shows " + printable(one.shows) + ")";
  }
  throw Error(ErrorKind::kUsage,
              "--map auto: no installed map that takes the names of the source "
              "shows " +
                  name_list(sides) + ", which --views or --format asks for: " + list)
      .hint("name a map, or leave --map out to keep the names");
}

/// The name of the only installed map that, in either direction, matches all tensors, or of two
/// that do one after the other. Tensors of the training state, and tensors that a map drops, do not
/// count.
/// @param sides that are asked for, of which one is enough; empty: any.
/// @param why none fits, for the message; empty: not known.
/// @throws Error kUsage if several maps match all tensors, or none does; names the maps.
std::vector<std::string> only_maps_for(const std::vector<std::string>& names,
                                       const KnownSource& known,
                                       const std::vector<std::string>& sides,
                                       const std::string& why) {
  const std::vector<SourceTensor> tensors = tensors_of(names);
  const std::vector<Candidate> all = candidates_for(tensors, known.config);
  std::vector<Candidate> complete = complete_ones(all, known);
  if (!sides.empty()) require_sides(complete, sides);
  const std::vector<FittingMap> best = best_of(complete);
  const Chains chains = better_chains(best, tensors, known);
  if (chains.size() > 1) refuse_several(chains);
  if (!chains.empty()) return chains.front();
  if (complete.empty()) {
    require_name(all, known);
    const std::vector<Candidate> others = complete_ones(all, {});
    if (!others.empty()) refuse_other_types(others, known);
    refuse_none(all, tensors.size(), why);
  }
  if (best.size() > 1) refuse_several(best);
  return {best.front().map};
}

}  // namespace

bool serves(const ModelMap& map, const std::vector<std::string>& model_types) {
  return is_for(map.types, map.rest.has_value(), model_types);
}

std::vector<FittingMap> fitting_maps(const std::vector<std::string>& names,
                                     const KnownSource& known) {
  return best_of(complete_ones(candidates_for(tensors_of(names), known.config), known));
}

std::string hugging_face_maps(const std::vector<std::string>& names,
                              const std::vector<std::string>& state_prefixes,
                              const KnownSource& known) {
  // One name of each kind says as much as all.
  std::set<std::string> shapes;
  std::vector<std::string> kinds;
  for (const std::string& name : names) {
    if (is_training_state(name, state_prefixes)) continue;
    if (shapes.insert(modelmap::Pattern::shape(name)).second) kinds.push_back(name);
  }
  if (kinds.empty()) return {};
  const std::vector<FittingMap> fitting = fitting_maps(kinds, known);
  std::string words;
  for (const auto& chain : better_chains(fitting, tensors_of(names), known)) {
    words += (words.empty() ? "" : " or ") + chain_words(chain);
  }
  if (!words.empty()) return words;
  for (const FittingMap& map : fitting) {
    if (map.shows != kHuggingFaceSide) return {};
    words += (words.empty() ? "--map " : " or --map ") + map.map;
  }
  return words;
}

KnownSource known_source(const SourceRequest& request, const CheckpointSet& set) {
  KnownSource known;
  known.program = program_of(set);
  read_known(config_of(model_question(request, set)), linkless_root(request), known);
  return known;
}

void settle_auto_map(SourceRequest& request, const std::vector<std::string>& sides) {
  std::vector<std::string>& maps = request.maps.maps;
  if (std::find(maps.begin(), maps.end(), kAuto) == maps.end()) return;
  if (maps.size() > 1) {
    throw Error(ErrorKind::kUsage, "--map auto stands for one map, but the number of maps is " +
                                       std::to_string(maps.size()))
        .hint("name all of them");
  }
  const auto set = open_set(request);
  std::vector<std::string> names = shown_names(request, *set);
  std::erase_if(names, [prefixes = state_prefixes(request, *set)](const std::string& name) {
    return is_training_state(name, prefixes);
  });
  maps = only_maps_for(names, known_source(request, *set), sides, foreign_names(*set));
}

std::string foreign_names(const CheckpointSet& set) {
  if (std::string words = adapter_words(set); !words.empty()) return words;
  CommonWrapper wrapper;
  const FileIndex* before = nullptr;
  for (const RankFile& file : set.files()) {
    // The files of a stage share an index.
    if (file.index.get() == before) continue;
    before = file.index.get();
    for (const TensorEntry& entry : file.index->entries()) {
      if (!is_training_state(entry.name, set.state_prefixes())) wrapper.add(entry.name);
    }
  }
  return wrapper_words(wrapper, set.takes_state_key());
}

}  // namespace reshardfs
