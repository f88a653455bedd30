// SPDX-License-Identifier: Apache-2.0
/// Finds the files of a checkpoint set by their names, without opening them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/completeness.h"
#include "checkpoint/ranks/rank_files.h"
#include "checkpoint/ranks/source_pattern.h"
#include "checkpoint/second_copies.h"
#include "checkpoint/series/set_age.h"
#include "format/torch/torch_save.h"

namespace reshardfs {

struct SetFaults;
struct SetFormat;

struct Discovery {
  std::vector<FoundFile> files;  ///< ascending by rank, then part; all of one step
  std::string step;              ///< empty: the names carry none
  std::vector<std::string> steps;
  std::string series;     ///< see CheckpointSet::series()
  std::string adapter{};  ///< see CheckpointSet::adapter()
  FoundBy found_by{};
  /// The kind that recognizes the source; nullptr for files of ranks and whole models.
  const SetFormat* format = nullptr;
  /// Of a directory of steps, the kind of the step that was chosen; otherwise nullptr.
  const SetFormat* step_format = nullptr;
  bool takes_state_key = true;  ///< see SetFormat
  /// Whether --state-key has been applied, whatever the names of the files are.
  bool applies_state_key = false;
  std::vector<std::string> notes;
  std::vector<std::string> warnings{};
  /// For a whole model in several files: parameter names, and the indices of their files in
  /// `files`.
  std::vector<std::pair<std::string_view, std::size_t>> places;
  /// Has these names.
  std::shared_ptr<const void> place_names{};
  /// Files that the set lists, but that do not exist.
  std::vector<FoundFile> missing{};
  /// What the set records of its layouts itself; nullptr if it does not.
  std::shared_ptr<const Catalogue> catalogue{};
  /// See CheckpointSet::state_prefixes().
  std::vector<std::string> state_prefixes{};
  CompareCopies compare_copies{};  ///< empty: there are none
  /// Whether the set is complete, according to names and tables.
  Completeness completeness{};
  /// Adds the evidence in the indexes of all files; empty: there is none.
  std::function<void(const std::vector<RankFile>& files, Completeness& out)> by_contents{};
  /// What files of torch.save have beside tensors.
  SavedBeside beside{};
  /// The files that are written last, each with its time; see set_age.h.
  std::vector<WrittenLast> written_last{};
};

/// @param faults gets what is wrong with the files of some ranks; nullptr: it is thrown or noted.
/// @throws Error as CheckpointSet::open() does.
Discovery discover(const std::filesystem::path& source, const CheckpointOptions& options,
                   SetFaults* faults = nullptr);

/// The path of a model's configuration in a directory, which need not exist; empty: it is a link,
/// and links are refused.
std::filesystem::path config_of(const std::filesystem::path& source,
                                const CheckpointOptions& options);

/// The files of all steps of the series that the options ask for.
/// @throws Error as CheckpointSet::open() does.
SourceFiles find_source_files(const std::filesystem::path& source,
                              const CheckpointOptions& options);

/// The files of all steps of all series.
/// @throws Error as CheckpointSet::open() does.
SourceFiles find_all_files(const std::filesystem::path& source, const CheckpointOptions& options);

}  // namespace reshardfs
