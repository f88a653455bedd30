// SPDX-License-Identifier: Apache-2.0
#include "conversion/family_target.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reshardfs/error.h"

#include "base/text/name_groups.h"
#include "base/text/state_names.h"
#include "base/text/text.h"
#include "conversion/auto_map.h"
#include "conversion/family_places.h"
#include "conversion/installed_maps.h"
#include "strategy/derive/sized_strategy.h"

namespace reshardfs {
namespace {

/// The unit of an embedding: every row can be cut from the next.
constexpr const char* kVocabulary = "vocab";

std::vector<modelmap::ModelMap> families_of(const ModelMaps& maps) {
  std::vector<modelmap::ModelMap> families = installed_maps();
  // One of the user's own may make what is shown.
  if (!maps.empty()) families.push_back(maps.at(maps.size() - 1));
  return families;
}

/// What tensors are called if no map shows them, or only maps between forms of Hugging Face do.
bool shows_hub(const ModelMaps& maps) {
  if (maps.empty()) return true;
  const modelmap::ModelMap& last = maps.at(maps.size() - 1);
  return last.from_side.starts_with(kHuggingFaceSide) && last.to_side.starts_with(kHuggingFaceSide);
}

bool has_units(const FamilyCut& cut) {
  return !cut.unit.empty() && cut.unit != kVocabulary;
}

/// The numbers from 2 on that divide one.
std::string divisors_of(std::int64_t number) {
  constexpr std::size_t kMostDivisors = 8;
  std::vector<std::int64_t> found;
  for (std::int64_t divisor = 2; divisor <= number && found.size() < kMostDivisors; ++divisor) {
    if (number % divisor == 0) found.push_back(divisor);
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

/// The weight that a state of an optimizer belongs to.
std::string without_state(const std::string& name, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (!prefix.empty() && name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return weight_name_of(name);
}

std::string words_for(const std::string& unit) {
  return unit == "groups" ? "heads of keys and values" : unit;
}

/// "'layers.{0..3}.w' [8, 4], 'v' [2] and 3 more kinds (nobody knows)": names that differ in
/// numbers and have the same shape stand together.
std::string grouped_words(const UnknownCuts& unknown, const std::vector<FamilyTensor>& tensors) {
  constexpr std::size_t kMostGroups = 5;
  std::map<std::string, Shape> shapes;
  for (const FamilyTensor& tensor : tensors) shapes.emplace(tensor.name, tensor.shape);
  std::string text;
  for (const auto& [why, names] : unknown) {
    std::map<Shape, std::vector<std::string>> by_shape;
    for (const std::string& name : names) by_shape[shapes.at(name)].push_back(name);
    std::vector<std::string> groups;
    for (const auto& [shape, alike] : by_shape) {
      for (const std::string& group : group_names(alike)) {
        groups.push_back("'" + printable(group) + "' " + to_string(shape));
      }
    }
    const std::size_t more = groups.size() - std::min(groups.size(), kMostGroups);
    groups.resize(groups.size() - more);
    text += fmt::format("{}{}{} ({})", text.empty() ? "" : "; ", fmt::join(groups, ", "),
                        more == 0 ? "" : fmt::format(" and {} more", more), why);
  }
  return text;
}

}  // namespace

std::vector<FamilyTensor> family_tensors(const modelmap::Mapping& mapping) {
  std::vector<FamilyTensor> tensors;
  for (const modelmap::TargetTensor& target : mapping.targets) {
    tensors.push_back(
        {target.name, target.name, target.shape(), target.is_kept ? nullptr : &target.place});
  }
  return tensors;
}

FamilyTarget::FamilyTarget(DerivedSizes sizes, StageLayers stage_layers, const ModelMaps& maps,
                           std::vector<std::string> prefixes, std::string command, std::string why)
    : sizes_(std::move(sizes)),
      stage_layers_(std::move(stage_layers)),
      prefixes_(std::move(prefixes)),
      command_(std::move(command)),
      why_(std::move(why)),
      maps_(families_of(maps)),
      cuts_(maps_, maps.config_of_model()),
      stages_(maps_, maps.config_of_model()) {
  if (!shows_hub(maps)) return;
  const modelmap::ModelConfig config = maps.config_of_model();
  const std::vector<std::string> types = config.model_types();
  plan_ = read_installed_plan(types);
  is_mapped_ = std::any_of(maps_.begin(), maps_.end(), [&](const modelmap::ModelMap& map) {
    return !map.rest && !map.types.empty() && serves(map, types);
  });
  if (plan_ && plan_->heads()) {
    modelmap::Variables variables;
    variables.config = config;
    heads_ = known_number(*plan_->heads(), variables);
  }
  layers_ = config.find("num_hidden_layers");
  if (const auto tied = config.find("tie_word_embeddings")) is_tied_ = *tied != 0;
}

SizedParameter FamilyTarget::sized(const FamilyTensor& tensor, const FamilyCut& cut,
                                   const ParallelSizes& sizes) const {
  SizedParameter parameter{tensor.target, tensor.shape.size(), {}, {}};
  if (!cut.dimension) return parameter;
  (cut.by_experts ? parameter.expert_cut : parameter.tensor_cut) = cut.dimension;
  const std::int64_t parts = cut.by_experts ? sizes.expert : sizes.tensor;
  if (!has_units(cut) || !cut.units || *cut.units % parts == 0) return parameter;
  Error error(ErrorKind::kBadInput, "has " + std::to_string(*cut.units) + " " +
                                        words_for(cut.unit) + ", which " + std::to_string(parts) +
                                        " ranks cannot share equally");
  error.for_parameter(tensor.name);
  if (*cut.units == 1) throw error.hint("write rules (see reshardfs-strategy(5))");
  throw error.hint("these numbers of ranks can: " + divisors_of(*cut.units) +
                   "; for others write rules (see reshardfs-strategy(5))");
}

Strategy FamilyTarget::strategy(const std::vector<FamilyTensor>& tensors,
                                const DerivedSizes& sizes) const {
  return strategy(tensors, ParallelSizes::of(sizes), sizes.text);
}

Strategy FamilyTarget::strategy_of_one_stage(const std::vector<FamilyTensor>& tensors) const {
  ParallelSizes sizes = ParallelSizes::of(sizes_);
  sizes.stages = 1;
  return strategy(tensors, sizes, sizes_.text);
}

Strategy FamilyTarget::strategy(const std::vector<FamilyTensor>& tensors,
                                const ParallelSizes& sizes, const std::string& sizes_text) const {
  const std::vector<Known<FamilyCut>> cuts = cuts_of(tensors, sizes);
  PlacedTensors placed;
  if (sizes.stages > 1) {
    placed = place_tensors(place_source(tensors), tensors, sizes.stages, stage_layers_, prefixes_);
  }
  std::vector<SizedParameter> parameters;
  UnknownCuts unknown;
  bool has_experts = false;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const FamilyTensor& tensor = tensors[i];
    if (!tensor.is_shown) continue;
    const Known<FamilyCut>& cut = cuts[i];
    if (!cut) {
      unknown[cut.origin()].push_back(tensor.name);
      continue;
    }
    has_experts = has_experts || (*cut).by_experts;
    SizedParameter parameter = sized(tensor, *cut, sizes);
    if (!placed.stages.empty()) parameter.stages = placed.stages[i];
    parameters.push_back(std::move(parameter));
  }
  if (!unknown.empty()) refuse(sizes_text, "' does not say how to cut ", unknown, tensors);
  if (!placed.unknown.empty())
    refuse(sizes_text, "' does not say which stage has ", placed.unknown, tensors);
  if (sizes.expert > 1 && !has_experts) {
    throw Error(ErrorKind::kUsage,
                "'" + printable(sizes_text) +
                    "': no parameter has a dimension of experts that ep could cut")
        .hint("a map may show the experts of a layer as one tensor");
  }
  return sized_strategy(sizes, parameters);
}

void FamilyTarget::refuse(const std::string& sizes, const std::string& what,
                          const UnknownCuts& unknown,
                          const std::vector<FamilyTensor>& tensors) const {
  std::size_t count = 0;
  for (const auto& [why, names] : unknown) count += names.size();
  throw Error(ErrorKind::kUsage, "'" + printable(sizes) + what + counted(count, "parameter") +
                                     ": " + grouped_words(unknown, tensors))
      .hint(!why_.empty() ? why_
                          : "leave them out with --exclude, give the --src-strategy that the "
                            "training wrote, or, for rules to complete, run: " +
                                command_);
}

RulesDraft FamilyTarget::draft(const std::vector<FamilyTensor>& tensors,
                               std::vector<std::string> header) const {
  const ParallelSizes sizes = ParallelSizes::of(sizes_);
  const std::vector<Known<FamilyCut>> cuts = cuts_of(tensors, sizes);
  PlacedTensors placed;
  if (sizes.stages > 1) {
    placed = place_tensors(place_source(tensors), tensors, sizes.stages, stage_layers_, prefixes_,
                           UnknownPlaces::kLeftOpen);
  }
  std::vector<DraftedParameter> parameters;
  std::size_t unknown = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const FamilyTensor& tensor = tensors[i];
    if (!tensor.is_shown) continue;
    const Known<FamilyCut>& cut = cuts[i];
    DraftedParameter drafted{{tensor.target, tensor.shape.size(), {}, {}}, tensor.shape, {}, {}};
    if (cut) drafted.parameter = sized(tensor, *cut, sizes);
    if (!cut) drafted.unknown_cut = cut.origin();
    if (!placed.stages.empty()) drafted.parameter.stages = placed.stages[i];
    if (const auto why = placed.why.find(tensor.name); why != placed.why.end()) {
      drafted.unknown_stage = why->second;
    }
    if (!drafted.is_known()) ++unknown;
    parameters.push_back(std::move(drafted));
  }
  if (unknown > 0) {
    header.push_back("To complete, for " + counted(unknown, "parameter") +
                     ": in each rule with 'undecided', remove the '#' of the keys that hold, and");
    header.emplace_back(
        "'undecided'. Parameters without 'cut' are whole on all ranks of their stage.");
  }
  return draft_rules(sizes, parameters, header);
}

bool FamilyTarget::is_planned(const std::vector<FamilyTensor>& tensors) const {
  return plan_ && std::any_of(tensors.begin(), tensors.end(), [&](const FamilyTensor& tensor) {
           return plan_->is_embedding(without_state(tensor.stated_name(), prefixes_));
         });
}

std::vector<Known<FamilyCut>> FamilyTarget::cuts_of(const std::vector<FamilyTensor>& tensors,
                                                    const ParallelSizes& sizes) const {
  const bool has_plan = is_planned(tensors);
  std::vector<Known<FamilyCut>> cuts;
  bool is_stated = !has_plan || is_mapped_;
  for (std::size_t i = 0; i < tensors.size() && is_stated; ++i) {
    const FamilyTensor& tensor = tensors[i];
    cuts.push_back(cut_of(tensor, sizes, nullptr));
    if (!has_plan) continue;
    const std::string name = without_state(tensor.stated_name(), prefixes_);
    is_stated = is_training_state(name, prefixes_) || (cuts.back() && plan_->place_of(name));
  }
  if (is_stated) return cuts;
  cuts.clear();
  for (const FamilyTensor& tensor : tensors) cuts.push_back(cut_of(tensor, sizes, &*plan_));
  return cuts;
}

PlaceSource FamilyTarget::place_source(const std::vector<FamilyTensor>& tensors) const {
  if (!is_planned(tensors)) return {stages_, nullptr, is_tied_, layers_};
  return {stages_, &*plan_, is_tied_, layers_,
          [this](const std::string& name) { return plan_->is_head(name); }};
}

Known<FamilyCut> FamilyTarget::cut_of(const FamilyTensor& tensor, const ParallelSizes& sizes,
                                      const TensorPlan* plan) const {
  if (!sizes.cuts()) return Known<FamilyCut>::derived({}, "nothing is cut");
  if (!tensor.unknown.empty()) return Known<FamilyCut>::unknown(tensor.unknown);
  if (tensor.part) return cut_of_part(tensor, sizes, plan);
  return cut_of_weight(tensor.name, tensor.shape, tensor.made_by, plan);
}

Known<FamilyCut> FamilyTarget::cut_of_weight(const std::string& name, const Shape& shape,
                                             const modelmap::MapPlace* made_by,
                                             const TensorPlan* plan) const {
  using Cut = Known<FamilyCut>;
  Cut stated = cuts_.find(name, shape, made_by);
  // "Whole" is said of a tensor of another shape: of one head, for example, and not of all.
  if (stated && !(*stated).dimension && (*stated).whole && *(*stated).whole != shape) {
    stated = Cut::unknown("its shape is not the one that a map states for it");
  }
  if (plan == nullptr) return stated;
  const std::string bare = without_state(name, prefixes_);
  const TensorPlan::Cut planned = plan->cut_of(bare, shape);
  if (!planned.is_known) {
    return stated ? stated : Cut::unknown("no model map states where it is cut");
  }
  if (planned.is_packed) {
    return Cut::unknown(
        "it holds several matrices one after another, each of which is cut by itself");
  }
  FamilyCut cut;
  cut.dimension = planned.dimension;
  if (planned.is_by_heads) {
    if (!heads_) {
      return Cut::unknown("config.json does not tell '" + plan->heads()->text() +
                          "', the number of its heads of keys and values");
    }
    cut.unit = "groups";
    cut.units = heads_;
    return Cut::stated(std::move(cut), plan->origin());
  }
  if (!planned.is_named && plan->place_of(bare)) {
    if (stated && (*stated).by_experts) return stated;
    if (!stated && cuts_.is_arranged(name)) return stated;
  }
  if (stated && cut.dimension && (*stated).dimension == cut.dimension) {
    cut.unit = (*stated).unit;
    cut.units = (*stated).units;
  }
  return Cut::stated(std::move(cut), plan->origin());
}

Known<FamilyCut> FamilyTarget::cut_of_part(const FamilyTensor& tensor, const ParallelSizes& sizes,
                                           const TensorPlan* plan) const {
  const WeightPart& part = *tensor.part;
  Known<FamilyCut> stated = cut_of_weight(part.weight, part.shape, tensor.made_by, plan);
  if (!stated) return stated;
  FamilyCut cut = *stated;
  cut.whole = std::nullopt;  // that of the weight
  if (!cut.dimension) return Known<FamilyCut>::derived(std::move(cut), stated.origin());
  const WeightPart::Along& along = part.along[*cut.dimension];
  const std::int64_t length = part.shape[*cut.dimension];
  const std::int64_t parts = cut.by_experts ? sizes.expert : sizes.tensor;
  const bool is_within = length % parts != 0 || length / parts % along.together != 0;
  if (along.together > 1 && is_within) {
    const std::string fitting =
        length % along.together == 0 ? divisors_of(length / along.together) : "";
    return Known<FamilyCut>::unknown(
        fmt::format("its weight is cut within groups of {} that are stored together; {}; "
                    "--dequantize shows weights without scales",
                    along.together,
                    fitting.empty() ? "no number of ranks would do"
                                    : "these numbers of ranks would do: " + fitting));
  }
  cut.dimension = along.dimension;
  return Known<FamilyCut>::derived(std::move(cut), stated.origin());
}

std::int64_t FamilyTarget::tensor_parts() const {
  return ParallelSizes::of(sizes_).tensor;
}

std::vector<std::string> FamilyTarget::warnings(const std::vector<FamilyTensor>& tensors) const {
  if (tensor_parts() == 1) return {};
  const std::vector<Known<FamilyCut>> cuts = cuts_of(tensors, ParallelSizes::of(sizes_));
  std::set<std::string> unknown;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Known<FamilyCut>& cut = cuts[i];
    if (!tensors[i].is_shown || !cut) continue;
    if ((*cut).dimension && has_units(*cut) && !(*cut).units) unknown.insert((*cut).unit);
  }
  if (unknown.empty()) return {};
  return {"no config.json tells " + name_list({unknown.begin(), unknown.end()}) + ": whether " +
          printable(sizes_.text) + " cuts between heads is not known (--model-config)"};
}

}  // namespace reshardfs
