// SPDX-License-Identifier: Apache-2.0
/// The statement of what a set lacks, as a whole: counts in names, indexes and tables
/// (completeness.h), and the model's own numbers and the other layers, which this compares with the
/// tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/source_request.h"

#include "base/text/glob.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/completeness.h"
#include "plan/source/renames.h"
#include "plan/source/source_table.h"
#include "storage/source_tree.h"

namespace reshardfs {

struct ModelNumbers;

struct ModelQuestion {
  const CheckpointSet& set;
  /// The set as it is laid out, which has full shapes; nullptr: only shapes of whole tensors count.
  const SourceTable* table = nullptr;
  std::filesystem::path source{};  ///< that the user has named; empty: the set's root
  /// The config.json that the user has named; empty: the one beside the files.
  std::filesystem::path config{};
  SourceTreePtr tree{};  ///< opens the config.json; nullptr: by its path
  /// Of the YAML file of the training job that the user has named; nullptr: none.
  std::shared_ptr<const ModelNumbers> training{};
  /// Selects tensors by their names in the set; others are not missed. Empty: all.
  NameTaker takes{};
  /// Leave tensors out by the same names, with --drop: these are not missed, either.
  Renames drops{};
};

/// Whether the configuration that a request names, if any, has a use: for a map, for sizes, or for
/// state_model(), which needs numbers of the model in it. Views and targets may have another.
/// @throws Error kIo for a configuration that cannot be read.
bool has_use_for_config(const SourceRequest& request);

/// About the source that a request names.
/// @param tree of SourceOpening::tree(); nullptr: a server is asked for the config.json.
/// @throws Error kIo or kBadInput for the YAML file.
ModelQuestion model_question(const SourceRequest& request, const CheckpointSet& set,
                             const SourceTreePtr& tree = nullptr);

/// The config.json that the set is compared with, which need not exist; empty: there is none.
std::filesystem::path config_of(const ModelQuestion& question);

/// The set's own statement, and what comparing adds to it:
/// - `missing`: layers below the number that is stated; tensors that the other layers of the same
///   kind have; rows of a vocabulary. Only for types of models in layer_names.h.
/// - `differences`: sizes of another model.
/// - `doubts`: the same for other types.
/// - `grounds`, where the numbers prove that all is there.
/// Surplus rows and layers, adapters, towers for images, and parts that an export of ours has left
/// out on purpose are never missed; and nothing is, of what ranks hold whose files are not there.
/// @throws Error kIo for a configuration that cannot be read.
Completeness state_model(const ModelQuestion& question);

/// The same as warnings, for commands that show what is there.
std::vector<std::string> model_warnings(const ModelQuestion& question);

/// The first that is missing, or differs, with --partial as the way out; nothing: a conversion
/// shows the model as it is.
std::optional<Error> flaw_of_model(const Completeness& statement);

/// For commands that show what is there: what is missing becomes doubts.
void name_missing(Completeness& statement);

}  // namespace reshardfs
