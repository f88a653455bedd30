// SPDX-License-Identifier: Apache-2.0
/// The strategy of the target: as a file or rules state it, or made of sizes by what the source
/// states or what model families do.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/conversion_options.h"
#include "reshardfs/strategy.h"

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/quantized/weight_parts.h"
#include "conversion/family_target.h"
#include "conversion/model_maps.h"
#include "conversion/source_opening.h"
#include "conversion/strategy_input.h"
#include "modelmap/mapping.h"
#include "plan/source/source_table.h"
#include "plan/target/name_map.h"
#include "plan/target/target_table.h"
#include "storage/inputs.h"
#include "strategy/rules/rules_draft.h"

namespace reshardfs {

/// The parts of quantized weights that a source shows as they are stored.
struct StoredParts {
  std::map<std::string, WeightPart> parts{};     ///< by name
  std::map<std::string, std::string> refused{};  ///< why they do not fit, by name
  bool are_unknown = false;                      ///< in a form that is not known
};

class WantedStrategy {
 public:
  /// @param inputs gets what strategies are made of.
  WantedStrategy(const ConversionOptions& options, StrategyInput& input,
                 const SourceOpening& opening, const NameMap& names, InputsPtr inputs)
      : options_(options),
        input_(input),
        opening_(opening),
        maps_(opening.maps()),
        name_map_(names),
        inputs_(std::move(inputs)) {}

  /// Call it first. What families do with the tensors that the user's maps make of the set; nullptr
  /// if the target is not sizes, or there are no maps.
  /// @throws what FamilyTarget() throws.
  const FamilyTarget* family_of_maps(const std::shared_ptr<const CheckpointSet>& set);
  /// @param mapping of the last of these maps.
  void made_by(modelmap::Mapping mapping);
  /// Call it before what follows.
  /// @param names what the target is to have.
  void lay_out(std::shared_ptr<const SourceTable> source, NameFilter names);

  /// Of a target that is sizes. @throws what FamilyTarget::strategy() and for_target() throw.
  Strategy strategy() { return *strategy_for(options_.dst_sizes); }
  /// The same as rules. @throws as strategy().
  RulesDraft rules();
  /// @throws what TargetTable() and strategy() throw; for sizes, with those that fit.
  std::shared_ptr<TargetTable> table(const TargetOptions& target);
  /// What is not known of the cuts of this table, and what a user may not expect.
  std::vector<std::string> warnings(const TargetTable& table);

 private:
  std::optional<Strategy> strategy_for(const DerivedSizes& sizes);
  bool states_cuts() const;
  FamilyTarget& family();
  StoredParts stored_parts() const;
  std::vector<FamilyTensor> tensors_of_family();

  const ConversionOptions& options_;
  StrategyInput& input_;
  const SourceOpening& opening_;
  const ModelMaps& maps_;
  const NameMap& name_map_;
  const InputsPtr inputs_;
  std::shared_ptr<const CheckpointSet> set_{};
  std::shared_ptr<const SourceTable> source_{};  ///< as the maps show it
  NameFilter names_{};
  std::optional<FamilyTarget> family_{};       ///< for sizes of tensors whose cuts are not stated
  std::optional<StoredParts> stored_parts_{};  ///< if looked for
  std::map<std::string, modelmap::MapPlace>
      made_by_{};  ///< of what a map shows, where there is one
};

}  // namespace reshardfs
