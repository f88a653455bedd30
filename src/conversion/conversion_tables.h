// SPDX-License-Identifier: Apache-2.0
/// The options of a conversion, turned into tables: what the source has, and what each target rank
/// is to have. Views make files of them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"
#include "reshardfs/error.h"

#include "checkpoint/checkpoint_set.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// The model that is shown through maps, beside its tensors.
struct ShownModel {
  std::string side{};  ///< "Hugging Face"; empty: there is no map
  std::filesystem::path config_file{};
  /// Whether the files beside config_file belong to the model.
  bool has_directory = false;
  /// Names of optimizer states, as the maps know them.
  std::shared_ptr<const std::set<std::string>> states = std::make_shared<std::set<std::string>>();
};

/// The only rank of ConversionTables::whole.
inline constexpr Rank kWholeRank;

struct ConversionTables {
  std::shared_ptr<const CheckpointSet> checkpoint;
  std::shared_ptr<const TargetTable> target;
  /// The same parameters without a destination strategy: one rank that has everything whole.
  /// nullptr if there is no such whole, or a part of it has no source.
  std::shared_ptr<const TargetTable> whole;
  std::optional<Error> no_whole{};  ///< why there is none, if a view wants it
  std::vector<Rank> ranks;          ///< the destination ranks to show, ascending
  /// Of each rank's files: options.formats, or the source's own.
  std::vector<OutputFormat> formats;
  ShownModel model;
  std::vector<std::string> warnings;   ///< lines that the user should see
  std::vector<std::string> unmatched;  ///< those of `warnings` about options that select nothing
  std::vector<std::string> notes;
};

/// @throws Error kUsage for options that contradict each other or the checkpoint, kMissing,
///         kBadInput, kUnsupported or kIo for what cannot be read or laid out.
ConversionTables open_tables(const ConversionOptions& options);

/// How the options say to open the source.
/// @throws Error kMissing, kIo or kBadInput for the key file.
CheckpointOptions source_options(const ConversionOptions& options);

/// @throws Error kUsage if the target has no such rank. @param count of its ranks.
void require_rank(Rank rank, std::int64_t count);

}  // namespace reshardfs
