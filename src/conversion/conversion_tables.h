// SPDX-License-Identifier: Apache-2.0
/// Turns the options of a conversion into tables: the parameters of the source, and those of each
/// target rank. Views make files of them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/conversion_options.h"
#include "reshardfs/error.h"

#include "checkpoint/checkpoint_set.h"
#include "plan/target/target_table.h"
#include "storage/inputs.h"
#include "strategy/rules/rules_draft.h"

namespace reshardfs {

struct StatedWords;

/// Facts about a model that is shown, beside its tensors.
struct ShownModel {
  std::string side{};                              ///< "Hugging Face"; empty: there is no map
  std::map<std::string, std::int64_t> settings{};  ///< of the map that shows it, if known
  std::filesystem::path config_file{};
  /// Whether the files beside config_file belong to the model.
  bool has_directory = false;
  /// Names of optimizer states according to the maps.
  std::shared_ptr<const std::set<std::string>> states = std::make_shared<std::set<std::string>>();
  /// Of states according to the set and the user: see weight_of().
  std::vector<std::string> state_prefixes{};
  /// What headers and an index state; nullptr: nothing.
  std::shared_ptr<const StatedWords> words{};
};

/// The only rank of ConversionTables::whole.
inline constexpr Rank kWholeRank;

struct ConversionTables {
  std::shared_ptr<const CheckpointSet> checkpoint;
  std::shared_ptr<const TargetTable> target;
  /// The same parameters on one rank that has everything whole. nullptr if the model cannot be
  /// shown as a whole, or a part of it has no source.
  std::shared_ptr<const TargetTable> whole;
  std::optional<Error> no_whole{};  ///< why `whole` is nullptr, if a view needs it
  std::vector<Rank> ranks;          ///< the destination ranks to show, ascending
  /// The formats of the rank files: options.formats, or the source's format.
  std::vector<OutputFormat> formats;
  ShownModel model;
  InputsPtr inputs;                    ///< what was read beside the tensors
  std::string unstated{};              ///< see Completeness
  std::vector<std::string> warnings;   ///< lines that the user should see
  std::vector<std::string> unmatched;  ///< the `warnings` about options that select nothing
  std::vector<std::string> notes;
};

/// @throws Error kUsage if options contradict each other or the checkpoint; kMissing, kBadInput,
///         kUnsupported or kIo if a file cannot be read or a parameter cannot be laid out.
/// @param inputs records what is read beside the tensors.
ConversionTables open_tables(const ConversionOptions& options,
                             InputsPtr inputs = std::make_shared<Inputs>());

/// The rules that sizes for the target stand for, with blanks where it is not stated how
/// parameters are cut.
/// @throws as open_tables().
RulesDraft target_rules(const ConversionOptions& options);
/// The strategy that sizes for the target stand for.
/// @throws as open_tables().
Strategy target_strategy(const ConversionOptions& options);

}  // namespace reshardfs
