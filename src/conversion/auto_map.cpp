// SPDX-License-Identifier: Apache-2.0
#include "conversion/auto_map.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/state_names.h"
#include "base/text/text.h"
#include "base/text/wrapper_names.h"
#include "checkpoint/set_format.h"
#include "checkpoint/whole/lora_adapter.h"
#include "conversion/map_candidates.h"
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

/// Refuses if a map that is only used where it is named is for the model and takes all names.
void require_name(const std::vector<Candidate>& candidates, const KnownSource& known) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& one) {
    return !one.is_auto && one.taken > 0 && one.left.empty() &&
           is_for(one.types, one.keeps_rest, known.config.model_types());
  });
  if (found == candidates.end()) return;
  const std::string& side = found->reads == kHuggingFaceSide ? found->shows : found->reads;
  throw Error(ErrorKind::kUsage,
              "--map auto does not choose " + found->map +
                  ", the map for these names: it was never tested with a checkpoint of " +
                  printable(side))
      .hint("to use it all the same, name it: --map " + found->map +
            "; 'reshardfs map list' says what it was compared with");
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
/// @param tensors that the first map must take: all, or one of each kind.
/// @param names of all.
Chains better_chains(const std::vector<ModelMap>& installed, const std::vector<FittingMap>& alone,
                     const std::vector<SourceTensor>& tensors,
                     const std::vector<std::string>& names, const KnownSource& known) {
  std::optional<std::size_t> least;
  for (const FittingMap& map : alone) {
    least = least ? std::min(*least, map.idle_rules) : map.idle_rules;
  }
  if (least == std::optional<std::size_t>(0)) return {};
  std::vector<const ModelMap*> first;
  for (const ModelMap& map : installed) {
    // What sees is left out only if that is asked for.
    const bool leads_on = is_between(map) && !map.from_side.starts_with(kHuggingFaceSide);
    if (leads_on && map.is_auto) first.push_back(&map);
  }
  std::stable_sort(first.begin(), first.end(), [](const ModelMap* a, const ModelMap* b) {
    return a->name().size() < b->name().size();
  });
  for (const ModelMap* map : first) {
    Chains chains;
    for (const Direction direction : {Direction::kForward, Direction::kInverse}) {
      const Candidate candidate = try_map(*map, direction, tensors, known.config);
      if (candidate.taken == 0 || !candidate.left.empty()) continue;
      const auto made = names_made(*map, direction, tensors_of(names));
      for (const FittingMap& next :
           best_of(complete_ones(candidates_for(installed, made, known.config), known))) {
        if (next.shows != kHuggingFaceSide || (least && next.idle_rules >= *least)) continue;
        chains.push_back({map->name(), next.map});
      }
    }
    if (!chains.empty()) return chains;
  }
  return {};
}

std::vector<FittingMap> fitting_maps(const std::vector<ModelMap>& installed,
                                     const std::vector<SourceTensor>& tensors,
                                     const KnownSource& known) {
  return best_of(complete_ones(candidates_for(installed, tensors, known.config), known));
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
/// format can have. Of sides that begin alike, the one that is just what is asked for.
/// @throws Error kUsage if none is left.
void require_sides(std::vector<Candidate>& complete, const std::vector<std::string>& sides) {
  const std::vector<Candidate> all = complete;
  const auto is_one_of_them = [&](const Candidate& one) {
    return std::find(sides.begin(), sides.end(), one.shows) != sides.end();
  };
  const auto is_asked_for = [&](const Candidate& one) {
    return is_one_of_them(one) ||
           std::any_of(sides.begin(), sides.end(), [&](const std::string& side) {
             return side != kHuggingFaceSide && one.shows.starts_with(side);
           });
  };
  prefer(complete, is_asked_for);
  prefer(complete, is_one_of_them);
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

/// Whether the names are already those that are asked for.
bool has_sides(const std::vector<Candidate>& complete, const std::vector<std::string>& sides) {
  return !complete.empty() && std::all_of(sides.begin(), sides.end(), [](const std::string& side) {
    return side == kHuggingFaceSide;
  }) && std::all_of(complete.begin(), complete.end(), [](const Candidate& one) {
    return one.reads == kHuggingFaceSide;
  });
}

/// The name of the only installed map that, in either direction, matches all tensors, or of two
/// that do one after the other; none if the names are those that are asked for. Tensors of the
/// training state, and tensors that a map drops, do not count.
/// @param sides that are asked for, of which one is enough; empty: any.
/// @param why none fits, for the message; empty: not known.
/// @throws Error kUsage if several maps match all tensors, or none does; names the maps.
std::vector<std::string> only_maps_for(const std::vector<std::string>& names,
                                       const KnownSource& known,
                                       const std::vector<std::string>& sides,
                                       const std::string& why) {
  const std::vector<SourceTensor> tensors = tensors_of(names);
  const std::vector<ModelMap> installed = installed_maps();
  const std::vector<Candidate> all = candidates_for(installed, tensors, known.config);
  std::vector<Candidate> complete = complete_ones(all, known);
  if (!sides.empty()) {
    if (has_sides(complete, sides)) return {};
    require_sides(complete, sides);
  }
  const std::vector<FittingMap> best = best_of(complete);
  const Chains chains = better_chains(installed, best, tensors, names, known);
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
  return fitting_maps(installed_maps(), tensors_of(names), known);
}

std::string hugging_face_maps(const std::vector<std::string>& names,
                              const std::vector<std::string>& state_prefixes,
                              const KnownSource& known, const std::vector<ModelMap>& installed) {
  // One name of each kind says as much as all.
  std::unordered_set<std::string> shapes;
  std::vector<std::string> kinds;
  for (const std::string& name : names) {
    if (is_training_state(name, state_prefixes)) continue;
    if (shapes.insert(modelmap::Pattern::shape(name)).second) kinds.push_back(name);
  }
  if (kinds.empty()) return {};
  const std::vector<SourceTensor> tensors = tensors_of(kinds);
  const std::vector<FittingMap> fitting = fitting_maps(installed, tensors, known);
  std::string words;
  for (const auto& chain : better_chains(installed, fitting, tensors, names, known)) {
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
