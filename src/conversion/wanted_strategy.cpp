// SPDX-License-Identifier: Apache-2.0
#include "conversion/wanted_strategy.h"

#include <utility>

#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "checkpoint/quantized/block_scales.h"
#include "checkpoint/quantized/dequantize.h"
#include "conversion/auto_map.h"
#include "conversion/derived_fit.h"
#include "conversion/sized_source.h"
#include "conversion/source_words.h"
#include "storage/location.h"
#include "strategy/derive/layer_stages.h"

namespace reshardfs {
namespace {

/// Where the tensors that a map shows are made, by name.
std::map<std::string, modelmap::MapPlace> places_of(modelmap::Mapping mapping) {
  std::map<std::string, modelmap::MapPlace> places;
  for (modelmap::TargetTensor& target : mapping.targets) {
    if (target.is_kept) continue;  // it lies as it was saved
    places.emplace(std::move(target.name), std::move(target.place));
  }
  return places;
}

/// The command that writes the rules of a target that is sizes.
std::string command_for_rules(const ConversionOptions& options) {
  CommandWords words;
  words.add("source", options.source.path.string());
  add_source_words(options.source, words);
  words.add("stage-layers", to_text(options.stage_layers));
  words.output("rules.toml");
  return command_line("strategy convert", {options.dst_sizes.text}, words.take());
}

}  // namespace

FamilyTarget& WantedStrategy::family() {
  if (!family_) {
    family_.emplace(options_.dst_sizes, options_.stage_layers, maps_, opening_.state_prefixes(),
                    command_for_rules(options_), foreign_names(*set_));
  }
  return *family_;
}

const FamilyTarget* WantedStrategy::family_of_maps(
    const std::shared_ptr<const CheckpointSet>& set) {
  set_ = set;
  return input_.is_sizes() && !maps_.empty() ? &family() : nullptr;
}

void WantedStrategy::made_by(modelmap::Mapping mapping) {
  made_by_ = places_of(std::move(mapping));
}

void WantedStrategy::lay_out(std::shared_ptr<const SourceTable> source, NameFilter names) {
  source_ = std::move(source);
  names_ = std::move(names);
}

/// @param sizes in place of the target's own, if it is sizes.
std::optional<Strategy> WantedStrategy::strategy_for(const DerivedSizes& sizes) {
  if (sizes.empty()) return input_.for_target(*source_, name_map_);
  if (states_cuts()) {
    return StrategyInput(sizes, options_.stage_layers).for_target(*source_, name_map_);
  }
  Strategy made = family().strategy(tensors_of_family(), sizes);
  inputs_->add_derived("--dst-strategy " + sizes.text, sum_of(made));
  return made;
}

/// Whether the source tells how sizes cut what is shown.
bool WantedStrategy::states_cuts() const {
  // Boxes say where parts lie, and not which axes of devices cut them. The layouts of a source
  // are of other tensors than a map shows.
  return maps_.empty() && (source_->strategy() != nullptr ||
                           (source_->states_layouts() && !source_->catalogue().has_boxes()));
}

RulesDraft WantedStrategy::rules() {
  if (states_cuts()) return {to_rules(strategy()), 0};
  return family().draft(tensors_of_family(),
                        {"Rules for '" + printable(options_.dst_sizes.text) + "', written for " +
                         printable(shown_location(options_.source.path.string())) + "."});
}

StoredParts WantedStrategy::stored_parts() const {
  StoredParts found;
  if (!maps_.empty() || options_.source.dequantize || !options_.source.quantize.empty()) {
    return found;
  }
  const auto name_of = [&](const std::string& stored) {
    return opening_.renames()(stored).value_or(stored);
  };
  QuantizedModel model;
  try {
    model = quantized_model(set_->files(), maps_.config_file(), recording(nullptr, inputs_));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported && error.kind() != ErrorKind::kBadInput) throw;
    found.are_unknown = true;
  }
  for (auto& [name, part] : weight_parts(model.weights)) {
    found.parts.emplace(name_of(name), std::move(part));
  }
  for (const auto& [why, names] : model.refused) {
    for (const std::string& name : names) found.refused.emplace(name_of(name), why);
  }
  return found;
}

std::vector<FamilyTensor> WantedStrategy::tensors_of_family() {
  if (!stored_parts_) stored_parts_ = stored_parts();
  std::vector<FamilyTensor> tensors;
  for (const SourceParameter& parameter : source_->parameters()) {
    if (!parameter.grid) continue;
    const auto place = made_by_.find(parameter.name);
    tensors.push_back({parameter.name, name_map_.target(parameter.name),
                       parameter.grid->full_shape(),
                       place == made_by_.end() ? nullptr : &place->second,
                       takes(names_, name_map_, parameter.name)});
    FamilyTensor& tensor = tensors.back();
    const auto part = stored_parts_->parts.find(parameter.name);
    if (part != stored_parts_->parts.end()) tensor.part = part->second;
    const auto why = stored_parts_->refused.find(parameter.name);
    if (why != stored_parts_->refused.end()) {
      tensor.unknown = why->second;
    } else if (stored_parts_->are_unknown && may_be_quantized(parameter.dtype, tensor.shape)) {
      tensor.unknown = "config.json states its quantization in an unknown form";
    }
  }
  return tensors;
}

std::shared_ptr<TargetTable> WantedStrategy::table(const TargetOptions& target) {
  std::optional<Strategy> strategy = strategy_for(options_.dst_sizes);
  try {
    return std::make_shared<TargetTable>(source_, std::move(strategy), target);
  } catch (const Error& error) {
    if (options_.dst_sizes.empty() || error.kind() != ErrorKind::kBadInput) throw;
    throw misfit_of_sizes(error, options_.dst_sizes, *source_, target,
                          [this](const DerivedSizes& sizes) { return strategy_for(sizes); });
  }
}

std::vector<std::string> WantedStrategy::warnings(const TargetTable& table) {
  std::vector<std::string> lines;
  if (family_) lines = family_->warnings(tensors_of_family());
  const DerivedSizes& sizes = options_.dst_sizes;
  if (sizes.empty() || sizes.pipeline || !table.strategy() || table.strategy()->stage_count() < 2) {
    return lines;
  }
  const Strategy& strategy = *table.strategy();
  // A user who asks for two ranks may not expect the source's stages.
  lines.push_back("--dst-strategy " + printable(sizes.text) + " keeps the source's " +
                  std::to_string(strategy.stage_count()) + " pipeline stages: " +
                  std::to_string(strategy.rank_count()) + " target ranks; with pp=1 there are " +
                  std::to_string(strategy.devices_per_stage()));
  return lines;
}

}  // namespace reshardfs
