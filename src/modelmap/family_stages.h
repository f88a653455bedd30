// SPDX-License-Identifier: Apache-2.0
/// Which pipeline stages hold the tensors of model families, as model maps state it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/known.h"
#include "modelmap/family_names.h"
#include "modelmap/model_map.h"
#include "modelmap/variables.h"

namespace reshardfs {

/// Where a tensor is, whatever the number of stages.
struct FamilyStage {
  bool first = false;
  bool last = false;
  bool every = false;
  std::optional<std::int64_t> layer{};  ///< it is in that layer's stage
  std::string stack{};                  ///< the name up to the number of the layer
  /// How many layers the configuration has; nothing: it does not say.
  std::optional<std::int64_t> layers{};
};

/// The reason of an unknown stage that no map contradicts.
inline constexpr const char* kNoStageStated = "no model map states its stage";

/// Answers with what all maps that have a name agree on, as FamilyCuts does.
class FamilyStages {
 public:
  using HasTensor = std::function<bool(const std::string& name)>;

  /// @param maps the families that count; must outlive it.
  FamilyStages(const std::vector<modelmap::ModelMap>& maps, const modelmap::ModelConfig& config);

  /// @param made_by as FamilyCuts::find().
  /// @param has_tensor whether the model has another tensor: of two tied ones it may have one.
  /// @return unknown where no map states it or maps differ, where the number of a layer cannot be
  ///         told, and where it cannot be told whether a tied tensor is another stage's, too.
  Known<FamilyStage> find(const std::string& name, const modelmap::MapPlace* made_by,
                          const HasTensor& has_tensor) const;

 private:
  using Stage = Known<FamilyStage>;

  /// Nothing: the map does not say.
  std::optional<Stage> stated_by(const FamilyName& found, std::string_view name) const;
  std::optional<Stage> stated_by_maker(const modelmap::MapPlace& maker,
                                       std::string_view name) const;
  std::optional<Stage> stated_by_blocks(const FamilyName& found, std::string_view prefix) const;
  Stage of_layer(const FamilyName& found, const std::string& capture, std::int64_t layer,
                 std::string stack) const;
  /// Adds the stages of tensors that are no others than this one.
  Stage with_tied(FamilyStage stage, const std::vector<FamilyName>& found, std::string_view name,
                  const HasTensor& has_tensor) const;

  /// What is known of a map once and for all.
  struct Family {
    modelmap::Variables variables{};
    std::map<std::string, std::int64_t> counts{};  ///< of [counts], by capture
    /// Of each block, by side; nothing: no configuration has a number in its pattern.
    std::vector<std::map<bool, std::optional<modelmap::Numberings>>> numberings{};
  };
  static Family family_of(const modelmap::ModelMap& map, const modelmap::ModelConfig& config);
  const Family& family(const FamilyName& found) const { return known_[found.family / 2]; }

  FamilyNames families_;
  std::vector<Family> known_{};  ///< of each map
};

}  // namespace reshardfs
