// SPDX-License-Identifier: Apache-2.0
#include "conversion/conversion_tables.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/process/parallel.h"
#include "base/text/state_names.h"
#include "base/unmatched_options.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/completeness.h"
#include "conversion/completeness.h"
#include "conversion/map_copies.h"
#include "conversion/model_maps.h"
#include "conversion/option_checks.h"
#include "conversion/shown_model.h"
#include "conversion/source_opening.h"
#include "conversion/stated_model/stated_model.h"
#include "conversion/strategy_input.h"
#include "conversion/target_ranks.h"
#include "conversion/unmatched_selectors.h"
#include "conversion/wanted_strategy.h"
#include "conversion/wanted_views.h"
#include "plan/replicas/settle_replicas.h"
#include "plan/replicas/step_counters.h"
#include "plan/target/target_table.h"

namespace reshardfs {
namespace {

/// Builds the table of the whole model.
/// @param target taken if it is whole itself.
/// @throws Error if it has no whole form (a parameter that the target leaves out may differ between
///         the ranks), or a part of it is in no file (a node may hold only the source ranks that
///         its own destination ranks need).
std::shared_ptr<TargetTable> whole_table(const std::shared_ptr<TargetTable>& target,
                                         const std::shared_ptr<const SourceTable>& source,
                                         const TargetOptions& options) {
  if (options.replicas == Replicas::kOwn) {
    throw Error(ErrorKind::kUsage, "with --replicas own every rank has its own values");
  }
  auto whole =
      target->strategy() ? std::make_shared<TargetTable>(source, std::nullopt, options) : target;
  require_complete(*whole, {kWholeRank});
  return whole;
}

std::vector<OutputFormat> formats_of(const ConversionOptions& options,
                                     const CheckpointSet& checkpoint) {
  if (!options.formats.empty()) return options.formats;
  const bool ckpt = checkpoint.format().name == "ckpt";
  return {ckpt ? OutputFormat::kCkpt : OutputFormat::kSafetensors};
}

NameFilter filter_of(const ConversionOptions& options, const SourceOpening& opening) {
  return {options.include, options.exclude, options.weights_only, opening.state_prefixes()};
}

/// If a layout of the source does not fit, the message also has the destination's, which shows
/// whether the user confused the two strategies.
SourceTableResult lay_out(const ConversionOptions& options, SourceOpening& opening,
                          const NameMap& names, const StrategyInput& target) {
  const NameFilter filter = filter_of(options, opening);
  try {
    return opening.lay_out(
        opening.needed([&](const std::string& name) { return takes(filter, names, name); }));
  } catch (Error& error) {
    // What is about the strategy's own file has no layout to compare with.
    const auto& strategy = options.source.strategy;
    const bool is_of_layout = error.kind() == ErrorKind::kBadInput && !error.parameter().empty() &&
                              error.file() != strategy.value_or("").string();
    if (strategy && is_of_layout) {
      error.explain("; target: " + target.words_for(names.target(error.parameter())));
    }
    throw;
  }
}

/// A name map has the stored names; what it gives is renamed, too.
NameMap with_new_names(const NameMap& names, const Renames& renames) {
  std::map<std::string, std::string> out;
  for (const auto& [stored, name] : names.entries()) {
    out.emplace(renames(stored).value_or(stored), renames(name).value_or(name));
  }
  return NameMap(std::move(out));
}

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

/// What maps show; what they may have left out as states of training; and what options leave out
/// with an effect, though nothing shows it: tensors that cannot be made, and second names.
std::vector<std::string> names_through_map(const ModelMaps::Result& shown,
                                           const std::vector<std::string>& names,
                                           const std::vector<std::string>& state_prefixes) {
  std::vector<std::string> all = names_in(*shown.table);
  append(all, shown.mappings.back().excused);
  for (const modelmap::SourceAlias& alias : shown.mappings.back().aliases) {
    all.push_back(shown.sources.back()->parameters()[alias.tensor].name);
  }
  std::copy_if(names.begin(), names.end(), std::back_inserter(all),
               [&](const std::string& name) { return is_training_state(name, state_prefixes); });
  return all;
}

bool selects_some(const ConversionOptions& options) {
  return !options.include.empty() || !options.exclude.empty();
}

struct StrategyInputs {
  StrategyInput source{std::nullopt};
  StrategyInput target{std::nullopt};
  InputsPtr files{};
};

/// Both at once: of a million parameters each takes as long as the headers of the source.
StrategyInputs read_inputs(const ConversionOptions& options, InputsPtr files) {
  StrategyInputs inputs;
  inputs.files = std::move(files);
  const auto read = [&](std::size_t i) {
    if (i == 0) {
      inputs.source = SourceOpening::read_strategy(options.source, inputs.files);
    } else {
      inputs.target = StrategyInput(options.dst_strategy, options.dst_sizes,
                                    linkless_root(options.source), inputs.files);
    }
  };
  parallel_for(2, read, options.source.strategy && options.dst_strategy ? 2 : 1);
  return inputs;
}

/// One conversion, step by step, in the order in which mistakes are best told.
class Opening {
 public:
  /// Strategy files first: they are small, and a wrong one is the most likely mistake.
  explicit Opening(const ConversionOptions& options, InputsPtr inputs = std::make_shared<Inputs>())
      : Opening(options, read_inputs(options, std::move(inputs))) {}

  Opening(const ConversionOptions& options, StrategyInputs inputs)
      : options_(options),
        target_input_(std::move(inputs.target)),
        inputs_(std::move(inputs.files)),
        name_map_(options.name_map.empty()
                      ? NameMap()
                      : NameMap::load(options.name_map, recording(nullptr, inputs_))),
        opening_(options.source, std::move(inputs.source), inputs_),
        maps_(opening_.maps()),
        wanted_(options_, target_input_, opening_, name_map_, inputs_) {
    target_input_.allow_unmatched(options.source.allow_unmatched);
  }

  void open_checkpoint() {
    tables_.checkpoint = opening_.open_set();
    if (maps_.empty()) name_map_ = with_new_names(name_map_, opening_.renames());
    tables_.notes = tables_.checkpoint->notes();
    tables_.warnings = tables_.checkpoint->warnings();
    // Before anything that a misspelt option makes go wrong.
    if (selects_by_name(options_)) names_ = names_in(*tables_.checkpoint);
    allowed_ = opening_.allows_unmatched();
    UnmatchedOptions unmatched;
    opening_.add_unmatched(names_, unmatched);
    names_ = opening_.renames().of(names_);
    if (maps_.empty()) add_unmatched_filters(options_, names_, name_map_, unmatched);
    settle(unmatched, allowed_);
  }

  void open_source() {
    opened_ = lay_out(options_, opening_, name_map_, target_input_);
    MappedSourceOptions mapped = opening_.mapped_options(options_.weights_only);
    // What a map has to say of a part that lacks is told in its own words.
    mapped.checks_family = state_completeness() || !options_.partial;
    const NameFilter filter = filter_of(options_, opening_);
    if (selects_some(options_)) {
      mapped.wants = [&](const std::string& name) { return takes(filter, name_map_, name); };
    }
    std::vector<ReplicaDisagreement> differing;
    if (options_.check_replicas) {
      if (options_.source.replicas == Replicas::kSame) {
        require_one_step(*opened_.table,
                         [&](const std::string& name) { return takes(filter, name_map_, name); });
      }
      differing = compare_mapped_ranks(*opened_.table, maps_, options_.source.replicas);
    }
    const FamilyTarget* const family = wanted_.family_of_maps(tables_.checkpoint);
    ModelMaps::Result shown = maps_.apply(
        std::move(opened_.table), {&target_input_, &name_map_, family, mapped.wants}, mapped);
    source_ = shown.table;
    if (!options_.partial) require_whole_source();
    name_missing(completeness_);
    append(tables_.warnings,
           settle_mapped_ranks(differing, shown, mapped, options_.source.replicas));
    if (options_.check_replicas) {
      append(tables_.warnings, check_map_copies(maps_, shown, mapped, options_.source.replicas));
    }
    tables_.model = shown_model(maps_, shown, *tables_.checkpoint, opening_.tree());
    tables_.model.state_prefixes = opening_.state_prefixes();
    notes_of_maps_ = shown.notes;
    append(tables_.warnings, shown.warnings);
    if (!maps_.empty() && selects_by_name(options_)) {
      UnmatchedOptions of_shown;
      add_unmatched_filters(options_, names_through_map(shown, names_, opening_.state_prefixes()),
                            name_map_, of_shown);
      settle(of_shown, allowed_);
    }
    if (family != nullptr) wanted_.made_by(std::move(shown.mappings.back()));
    wanted_.lay_out(source_, filter);
  }

  void open_target() {
    target_options_ = {options_.unmatched,
                       filter_of(options_, opening_),
                       name_map_,
                       opening_.state_prefixes(),
                       Casts(options_.casts),
                       opening_.strategy().is_rules() && maps_.empty(),
                       !target_input_.is_rules() && !target_input_.is_sizes(),
                       options_.source.replicas};
    target_ = wanted_.table(target_options_);
    tables_.target = target_;
    add_lines();
    const bool own = options_.source.replicas == Replicas::kOwn;
    if (own) require_own_ranks(options_, *target_);
    tables_.ranks = ranks_to_show(options_.ranks, target_->rank_count());
    if (own) require_own_files(*target_, tables_.ranks);
    tables_.formats = formats_of(options_, *tables_.checkpoint);
    if (options_.allow_idle_view_options) return;
    UnmatchedOptions of_views;
    add_idle_view_options(options_, tables_.formats, of_views);
    settle(of_views, options_.source.allow_unmatched);
  }

  /// @throws Error if the user has named what needs the whole model, and there is none.
  void make_whole() {
    if (!wants_whole(options_)) return;
    try {
      whole_ = whole_table(target_, source_, target_options_);
    } catch (const Error& error) {
      if (names_whole(options_)) throw;
      tables_.no_whole = error;
      tables_.warnings.push_back(std::string("no merged file: ") + error.what());
    }
    tables_.whole = whole_;
  }

  void look_at_values() {
    if (!options_.casts.empty()) {
      UnmatchedOptions casts;
      add_unmatched_casts(options_.casts, {target_.get(), whole_.get()},
                          renamed(names_in(*source_), name_map_), casts);
      settle(casts, allowed_);
    }
    if (!options_.check_replicas) return;
    const SettledReplicas settled =
        settle_replicas({*target_, whole_.get(), tables_.ranks}, options_.source.replicas);
    append(tables_.warnings, settled.warnings);
    append(tables_.notes, settled.notes);
  }

  ConversionTables take() {
    tables_.inputs = inputs_;
    return std::move(tables_);
  }

  /// For a strategy alone. The tables have no target.
  WantedStrategy& wanted() { return wanted_; }

 private:
  /// @throws Error
  void require_whole_source() const {
    std::optional<Error> flaw = flaw_of_model(completeness_);
    if (!flaw) return;
    const std::vector<RankFile>& files = tables_.checkpoint->files();
    const bool may_hold_slices =
        !source_->unmapped().states_layouts() && files.front().rank != files.back().rank;
    if (may_hold_slices) {
      flaw->needs(Need::kSourceStrategy)
          .hint(
              "if the ranks hold slices, give the strategy that they were saved with "
              "(--src-strategy)");
    }
    throw Error(*flaw);
  }

  /// @return whether nothing lacks.
  bool state_completeness() {
    ModelQuestion question = model_question(options_.source, *tables_.checkpoint, opening_.tree());
    question.table = opened_.table.get();
    if (selects_some(options_)) {
      // Behind a map, these are not the names of the source.
      question.takes = [this, filter = filter_of(options_, opening_)](const std::string& name) {
        return opening_.maps().empty() && takes(filter, name_map_, name);
      };
    }
    completeness_ = state_model(question);
    const bool is_whole = completeness_.missing.empty();
    // Tensors whose layout is open get a warning.
    if (opened_.table->strategy() == nullptr && completeness_.open_extents.empty()) {
      tables_.unstated = completeness_.unstated;
    }
    return is_whole;
  }

  /// @throws Error kUsage, unless they are allowed.
  void settle(const UnmatchedOptions& found, bool allowed) {
    found.settle(allowed, tables_.warnings);
    append(tables_.unmatched, found.lines());
  }

  /// What all that was opened has to say.
  void add_lines() {
    append(opened_.unmatched, target_input_.take_warnings());
    append(tables_.unmatched, opened_.unmatched);
    append(tables_.warnings, opened_.unmatched);
    const NameFilter filter = filter_of(options_, opening_);
    append(tables_.warnings, warnings_of(completeness_, [&](const std::string& name) {
             return !maps_.empty() || takes(filter, name_map_, name);
           }));
    append(tables_.warnings, opened_.warnings);
    append(tables_.warnings, target_->warnings());
    append(tables_.warnings, source_->catalogue().warnings());
    append(tables_.notes, opened_.notes);
    append(tables_.notes, maps_.notes());
    append(tables_.notes, notes_of_maps_);
    append(tables_.notes, target_->notes());
    append(tables_.warnings, wanted_.warnings(*target_));
  }

  const ConversionOptions& options_;
  StrategyInput target_input_;
  const InputsPtr inputs_;
  NameMap name_map_;
  SourceOpening opening_;
  const ModelMaps& maps_;  ///< of opening_
  WantedStrategy wanted_;
  ConversionTables tables_;
  std::vector<std::string> names_;  ///< in the source, where options select by name
  bool allowed_ = false;            ///< that options select nothing
  SourceTableResult opened_;
  Completeness completeness_{};
  std::vector<std::string> notes_of_maps_;
  std::shared_ptr<const SourceTable> source_;  ///< as the maps show it
  TargetOptions target_options_;
  std::shared_ptr<TargetTable> target_;
  std::shared_ptr<TargetTable> whole_;
};

}  // namespace

RulesDraft target_rules(const ConversionOptions& options) {
  check_stage_layers(options);
  Opening opening(options);
  opening.open_checkpoint();
  opening.open_source();
  return opening.wanted().rules();
}

Strategy target_strategy(const ConversionOptions& options) {
  check_stage_layers(options);
  Opening opening(options);
  opening.open_checkpoint();
  opening.open_source();
  return opening.wanted().strategy();
}

ConversionTables open_tables(const ConversionOptions& options, InputsPtr inputs) {
  check_output_options(options);
  check_stage_layers(options);
  Opening opening(options, std::move(inputs));
  opening.open_checkpoint();
  opening.open_source();
  opening.open_target();
  opening.make_whole();
  opening.look_at_values();
  return opening.take();
}

}  // namespace reshardfs
