// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"
#include "reshardfs/model_map.h"

#include "conversion/strategy_input.h"
#include "modelmap/mapping.h"
#include "modelmap/model_map.h"
#include "plan/mapped/mapped_source.h"
#include "plan/target/name_map.h"
#include "storage/source_tree.h"

namespace reshardfs {

class FamilyTarget;

/// The model maps that a user names, read.
class ModelMaps {
 public:
  /// @param source of the checkpoint: if it is a directory with a config.json, as those of models
  ///        are, that counts where the options name none.
  /// @param linkless_root as for Strategy::load().
  /// @param listed what a server has listed of the source; nullptr: nothing.
  /// @throws Error kMissing, kIo or kBadInput with the file; kUsage for a variable that is none or
  ///         that no map uses, and for a wrong number of directions.
  ModelMaps(const ModelMapOptions& options, const std::filesystem::path& source,
            std::filesystem::path linkless_root = {}, const SourceTreePtr& listed = nullptr);

  bool empty() const noexcept { return maps_.empty(); }
  std::size_t size() const noexcept { return maps_.size(); }
  const modelmap::ModelMap& at(std::size_t number) const { return maps_[number]; }

  /// @throws Error kUsage if each rank is to have its own values: what a map makes is of no single
  ///         rank.
  void require_shared_values(Replicas replicas) const;

  /// The config.json that counts; empty: none.
  const std::filesystem::path& config_file() const noexcept { return config_file_; }
  /// What that says; maps need not be there. Empty if there is none.
  /// @throws Error kMissing, kIo, or kBadInput with the file.
  modelmap::ModelConfig config_of_model() const;
  /// Whether the user has named the config by its directory.
  bool has_model_directory() const noexcept { return has_model_directory_; }
  /// SHA-256 of the files read, in the order in which they were, as hexadecimal digits.
  const std::vector<std::string>& digests() const noexcept { return digests_; }
  /// Choices made, one line each.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// The destination, as far as it counts.
  struct Destination {
    const StrategyInput* strategy = nullptr;
    const NameMap* names = nullptr;
    const FamilyTarget* family = nullptr;  ///< where the strategy is sizes
  };

  /// What a map is to be applied with to the tensors of `source`, which the one before it shows.
  /// Its direction is known, and into how many parts both sides cut tensors.
  modelmap::MapOptions map_options(std::size_t number,
                                   const std::shared_ptr<const SourceTable>& source,
                                   const std::vector<modelmap::SourceTensor>& tensors,
                                   const Destination& destination) const;
  /// For a destination of one rank.
  modelmap::MapOptions map_options(std::size_t number,
                                   const std::shared_ptr<const SourceTable>& source,
                                   const std::vector<modelmap::SourceTensor>& tensors) const {
    return map_options(number, source, tensors, Destination());
  }

  /// What a user may have meant instead, where rules of another installed map, or the other
  /// direction, take more of the names; empty if none do.
  std::string suggestion(std::size_t number,
                         const std::vector<modelmap::SourceTensor>& tensors) const;

  struct Result {
    std::shared_ptr<const SourceTable> table;
    std::string side;  ///< what the last map shows: "Hugging Face"; empty: there is no map
    std::vector<modelmap::Mapping> mappings;                  ///< of each map
    std::vector<std::shared_ptr<const SourceTable>> sources;  ///< what each map reads
    std::vector<std::string> notes;                           ///< choices made, one line each
  };

  /// How one of the maps makes a tensor.
  struct Explanation {
    std::string target;
    std::vector<std::string> sources;  ///< by name, in the order of the rule
    modelmap::MapPlace place;          ///< of the rule or the alias
    bool is_alias = false;
    std::vector<modelmap::VariableValue> values;
  };
  /// What each map makes the tensor `name` of, which the last one shows: the last map first. Of
  /// the maps before it, what the tensors of the next one need; at most 64 tensors.
  /// @throws what apply() throws; kMissing if the last map shows no such tensor.
  std::vector<Explanation> explain(std::shared_ptr<const SourceTable> source,
                                   const Destination& destination,
                                   const MappedSourceOptions& options,
                                   const std::string& name) const;

  /// @throws what map_tensors() and mapped_source() throw; kUsage for a destination that is sizes
  ///         without a family.
  Result apply(std::shared_ptr<const SourceTable> source, const Destination& destination,
               const MappedSourceOptions& options) const;

 private:
  modelmap::ModelMap load_map(const std::string& name);
  std::string read_file(const std::filesystem::path& file, std::uint64_t max_bytes);
  void read_config(const std::filesystem::path& model_config, const std::filesystem::path& source,
                   const SourceTreePtr& listed);
  void read_training(const std::filesystem::path& training_config,
                     const std::filesystem::path& source, const SourceTreePtr& listed);
  void find_training(const std::filesystem::path& source, const std::set<std::string>& keys,
                     const SourceTreePtr& listed);
  void read_variables(const std::vector<std::string>& texts);
  /// @return whether the target is whole, for one rank.
  bool set_target_parts(modelmap::MapOptions& map, std::size_t number,
                        const std::vector<modelmap::SourceTensor>& tensors,
                        const Destination& destination) const;
  void add_suggestion(Error& error, std::size_t number,
                      const std::vector<modelmap::SourceTensor>& tensors) const;
  bool needs_target_parts(std::size_t number, modelmap::Direction direction) const;
  void require_sizes(std::size_t number, modelmap::Direction direction,
                     const FamilyTarget& family) const;
  modelmap::MapOptions options_of(std::size_t number) const;
  void add_origin_notes(std::size_t number, modelmap::Direction direction,
                        const Destination& destination, std::vector<std::string>& notes) const;

  std::filesystem::path linkless_root_;
  std::vector<modelmap::ModelMap> maps_;
  std::vector<MapDirection> directions_;  ///< of each map
  std::map<std::string, std::int64_t> variables_;
  std::optional<modelmap::Release> release_;
  modelmap::ModelConfig config_;
  modelmap::TrainingConfig training_;
  std::filesystem::path config_file_;
  bool has_model_directory_ = false;
  std::vector<std::string> digests_;
  std::vector<std::string> notes_;
};

}  // namespace reshardfs
