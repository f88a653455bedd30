// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/conversion_options.h"
#include "reshardfs/model_map.h"

#include "conversion/strategy_input.h"
#include "modelmap/mapping.h"
#include "modelmap/model_map.h"
#include "plan/mapped/mapped_source.h"
#include "plan/target/name_map.h"
#include "storage/inputs.h"
#include "storage/source_tree.h"

namespace reshardfs {

class FamilyTarget;

/// The model maps that the options name.
class ModelMaps {
 public:
  /// @param source the checkpoint. If it is a directory with a config.json, this one is used unless
  ///        the options name one.
  /// @param linkless_root as for Strategy::load().
  /// @param listed a server's list of the source's files; nullptr: there is none.
  /// @param inputs gets the files that are read; nullptr: nothing is recorded.
  /// @throws Error kMissing, kIo or kBadInput with the file; kUsage for an invalid variable, one
  ///         that no map uses, or a wrong number of directions.
  ModelMaps(const ModelMapOptions& options, const std::filesystem::path& source,
            std::filesystem::path linkless_root = {}, const SourceTreePtr& listed = nullptr,
            InputsPtr inputs = nullptr);

  bool empty() const noexcept { return maps_.empty(); }
  std::size_t size() const noexcept { return maps_.size(); }
  const modelmap::ModelMap& at(std::size_t number) const { return maps_[number]; }

  /// @throws Error kUsage if each rank is to have its own values: tensors that a map makes do not
  ///         come from a single rank.
  void require_shared_values(Replicas replicas) const;

  /// The config.json in use; empty: none.
  const std::filesystem::path& config_file() const noexcept { return config_file_; }
  /// The contents of config_file(), or of a release's params.json, even without maps. Empty if
  /// there is none.
  /// @throws Error kMissing, kIo, or kBadInput with the file.
  modelmap::ModelConfig config_of_model() const;
  /// Whether the user has named the config by its directory.
  bool has_model_directory() const noexcept { return has_model_directory_; }
  /// Choices made, one line each.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// The facts about the destination that maps depend on.
  struct Destination {
    const StrategyInput* strategy = nullptr;
    const NameMap* names = nullptr;
    const FamilyTarget* family = nullptr;  ///< if the strategy is given as sizes
    /// Tensors that are asked for, by the names that the maps show; empty: all.
    std::function<bool(const std::string& name)> wants{};
  };

  /// The options for applying a map to the tensors of `source`, which the map before it shows. They
  /// contain its direction, and the number of parts into which each side cuts tensors.
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

  /// A hint for the user if another installed map, or the other direction, matches more of the
  /// names; empty if none does.
  std::string suggestion(std::size_t number,
                         const std::vector<modelmap::SourceTensor>& tensors) const;

  struct Result {
    std::shared_ptr<const SourceTable> table;
    std::string
        side;  ///< the side that the last map shows, such as "Hugging Face"; empty: there is no map
    std::map<std::string, std::int64_t> settings;             ///< of the last map, if known
    std::vector<modelmap::Mapping> mappings;                  ///< of each map
    std::vector<std::shared_ptr<const SourceTable>> sources;  ///< the input of each map
    std::vector<std::string> notes;                           ///< choices made, one line each
    std::vector<std::string> warnings{};
  };

  /// How one of the maps makes a tensor.
  struct Explanation {
    std::string target;
    std::vector<std::string> sources;  ///< names, in the order of the rule
    modelmap::MapPlace place;          ///< of the rule or the alias
    bool is_alias = false;
    std::vector<modelmap::VariableValue> values;
  };
  /// How each map makes the tensor `name` that the last map shows; the last map comes first. For
  /// the maps before it, lists the tensors that the following map needs; at most 64 tensors.
  /// @throws errors of apply(); kMissing if the last map shows no such tensor.
  std::vector<Explanation> explain(std::shared_ptr<const SourceTable> source,
                                   const Destination& destination,
                                   const MappedSourceOptions& options,
                                   const std::string& name) const;

  /// @throws errors of map_tensors() and mapped_source(); kUsage if the destination is given as
  ///         sizes without a family.
  Result apply(std::shared_ptr<const SourceTable> source, const Destination& destination,
               const MappedSourceOptions& options) const;

 private:
  modelmap::ModelMap load_map(const std::string& name);
  std::string read_file(const std::filesystem::path& file, std::uint64_t max_bytes) const;
  void read_config(const std::filesystem::path& model_config, const std::filesystem::path& source,
                   const SourceTreePtr& listed);
  std::filesystem::path params_file() const;
  void read_params();
  void read_training(const std::filesystem::path& training_config,
                     const std::filesystem::path& source, const SourceTreePtr& listed);
  void find_training(const std::filesystem::path& source, const std::set<std::string>& keys,
                     const SourceTreePtr& listed);
  /// What is to be said of a map that does not list the type of the model; empty: nothing.
  /// @throws Error kUsage if others list it, or if the map changes names by types alone.
  std::string check_type(std::size_t number) const;
  /// @throws Error kUsage if it is empty, or no map has types.
  std::string stated_type(const std::string& type) const;
  void read_variables(const std::vector<std::string>& texts);
  /// @throws Error kUsage if no map has the variable.
  void require_used(const std::string& name) const;
  /// @return whether the target is whole, for one rank.
  bool set_target_parts(modelmap::MapOptions& map, std::size_t number,
                        const std::vector<modelmap::SourceTensor>& tensors,
                        const Destination& destination) const;
  void add_suggestion(Error& error, std::size_t number,
                      const std::vector<modelmap::SourceTensor>& tensors,
                      const CheckpointSet& checkpoint) const;
  bool needs_target_parts(std::size_t number, modelmap::Direction direction) const;
  void require_sizes(std::size_t number, modelmap::Direction direction,
                     const FamilyTarget& family) const;
  modelmap::MapOptions options_of(std::size_t number) const;
  void add_origins(std::size_t number, modelmap::Direction direction,
                   const Destination& destination, Result& result) const;

  std::filesystem::path linkless_root_;
  InputsPtr inputs_;
  std::vector<modelmap::ModelMap> maps_;
  std::vector<MapDirection> directions_;     ///< of each map
  std::vector<std::string> words_of_names_;  ///< what each map's name states; perhaps nothing
  std::map<std::string, std::int64_t> variables_;
  std::vector<std::string> words_;  ///< of --map-var: "layers=numbered"
  std::optional<modelmap::Release> release_;
  std::optional<modelmap::StatedPattern> pattern_;
  modelmap::ModelConfig config_;
  modelmap::TrainingConfig training_;
  std::filesystem::path config_file_;
  std::filesystem::path source_;
  bool has_model_directory_ = false;
  std::vector<std::string> notes_;
  std::string model_type_;  ///< as --map-var states it
};

}  // namespace reshardfs
