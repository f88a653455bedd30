// SPDX-License-Identifier: Apache-2.0
/// Targets that are sizes, of sources that state no cuts: model families do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/shape.h"
#include "reshardfs/strategy.h"

#include "checkpoint/quantized/weight_parts.h"
#include "conversion/model_maps.h"
#include "modelmap/family_cuts.h"
#include "modelmap/family_stages.h"
#include "modelmap/mapping.h"
#include "modelmap/tensor_plan.h"
#include "strategy/derive/layer_stages.h"
#include "strategy/derive/sized_strategy.h"
#include "strategy/rules/rules_draft.h"

namespace reshardfs {

struct PlaceSource;

/// A tensor that is to be laid out.
struct FamilyTensor {
  std::string name{};                           ///< as maps know it
  std::string target{};                         ///< as the strategy is to know it
  Shape shape{};                                ///< of the full tensor
  const modelmap::MapPlace* made_by = nullptr;  ///< the rule of a map; nullptr: none made it
  /// Others are no target's, but tell how many layers there are.
  bool is_shown = true;
  std::optional<WeightPart> part{};  ///< of a quantized weight: cut as this one is
  std::string unknown{};             ///< why it cannot be cut; empty: nothing is known against it

  /// The name of the tensor of which maps say where it is cut.
  const std::string& stated_name() const noexcept { return part ? part->weight : name; }
};

/// Those that a map makes. The mapping must outlive them.
std::vector<FamilyTensor> family_tensors(const modelmap::Mapping& mapping);

class FamilyTarget {
 public:
  /// @param maps of the user: the last one counts besides the installed ones.
  /// @param prefixes of more states than MindSpore's own.
  /// @param command that writes the rules to complete, for messages.
  /// @param why no map knows the names, and what to do, for messages; empty: not known.
  /// @throws what reading installed maps and a config.json throws.
  FamilyTarget(DerivedSizes sizes, StageLayers stage_layers, const ModelMaps& maps,
               std::vector<std::string> prefixes, std::string command, std::string why);
  FamilyTarget(const FamilyTarget&) = delete;
  FamilyTarget& operator=(const FamilyTarget&) = delete;
  ~FamilyTarget() = default;

  const std::string& sizes() const noexcept { return sizes_.text; }
  /// @throws as strategy().
  std::int64_t tensor_parts() const;

  /// @param sizes other ones, for "tp=2 and 4 fit".
  /// @throws Error kUsage that lists the tensors whose cut, or whose stage, is not stated;
  ///         kBadInput if the units of a tensor cannot be shared equally; what
  ///         sized_strategy() and place_tensors() throw.
  Strategy strategy(const std::vector<FamilyTensor>& tensors, const DerivedSizes& sizes) const;
  Strategy strategy(const std::vector<FamilyTensor>& tensors) const {
    return strategy(tensors, sizes_);
  }

  /// The same without stages, for what a tensor's cut is asked for alone.
  Strategy strategy_of_one_stage(const std::vector<FamilyTensor>& tensors) const;

  /// The same as rules, with blanks instead of a refusal where cuts or stages are not stated.
  /// @param header lines for the beginning.
  RulesDraft draft(const std::vector<FamilyTensor>& tensors, std::vector<std::string> header) const;

  /// What is not known of the cuts, one line each.
  std::vector<std::string> warnings(const std::vector<FamilyTensor>& tensors) const;

 private:
  Strategy strategy(const std::vector<FamilyTensor>& tensors, const ParallelSizes& sizes,
                    const std::string& sizes_text) const;
  /// @throws Error kUsage
  [[noreturn]] void refuse(const std::string& sizes, const std::string& what,
                           const UnknownCuts& unknown,
                           const std::vector<FamilyTensor>& tensors) const;
  /// Whether the names are those that the plan is of.
  bool is_planned(const std::vector<FamilyTensor>& tensors) const;
  /// Of each tensor. The framework's plan tells them if no map is for the model's type, maps do not
  /// know all of them, or some are outside the language model; else maps do.
  std::vector<Known<FamilyCut>> cuts_of(const std::vector<FamilyTensor>& tensors,
                                        const ParallelSizes& sizes) const;
  PlaceSource place_source(const std::vector<FamilyTensor>& tensors) const;
  /// @param plan that counts; nullptr: what maps state.
  Known<FamilyCut> cut_of(const FamilyTensor& tensor, const ParallelSizes& sizes,
                          const TensorPlan* plan) const;
  Known<FamilyCut> cut_of_weight(const std::string& name, const Shape& shape,
                                 const modelmap::MapPlace* made_by, const TensorPlan* plan) const;
  Known<FamilyCut> cut_of_part(const FamilyTensor& tensor, const ParallelSizes& sizes,
                               const TensorPlan* plan) const;
  SizedParameter sized(const FamilyTensor& tensor, const FamilyCut& cut,
                       const ParallelSizes& sizes) const;

  // Without copies: cuts_ and stages_ refer to maps_.
  DerivedSizes sizes_;
  StageLayers stage_layers_;
  std::vector<std::string> prefixes_;
  std::string command_;
  std::string why_;
  std::vector<modelmap::ModelMap> maps_;
  std::optional<TensorPlan> plan_;  ///< of the model's type, for names of Hugging Face
  bool is_mapped_ = false;          ///< maps to other frameworks are for the model's type
  std::optional<bool> is_tied_;     ///< the head to the embedding, as config.json says
  std::optional<std::int64_t> layers_;
  std::optional<std::int64_t> heads_;  ///< those between which the plan cuts alone
  FamilyCuts cuts_;
  FamilyStages stages_;
};

}  // namespace reshardfs
