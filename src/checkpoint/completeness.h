// SPDX-License-Identifier: Apache-2.0
/// Whether a set contains everything that was saved, and what proves it: counts in the names of
/// files, an index, a table, config.json. Opening a set decides this once for all commands.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/shape.h"

namespace reshardfs {

struct FoundFile;

/// A parameter whose full shape is known only from the files, so that it would be smaller if the
/// last files were missing.
struct OpenShape {
  std::string name{};
  Shape shape{};  ///< according to the existing files
};

struct Completeness {
  /// The evidence that is satisfied: "counts in 2 names".
  std::vector<std::string> grounds{};
  /// What the set lacks according to the evidence. CheckpointSet::open() throws the first one.
  std::vector<Error> missing{};
  /// The same for single parameters, which the user may exclude; each error has the parameter's
  /// name.
  std::vector<Error> short_parameters{};
  /// Contradictions to the evidence that do not mean that data is missing: warnings, but damage for
  /// `verify`.
  std::vector<Error> differences{};
  /// Files that are used only in part, or not at all, one line each.
  std::vector<std::string> doubts{};
  /// What is missing unless layouts state how the ranks share the model. SourceTable throws the
  /// first one if neither a strategy nor the set states any.
  std::vector<Error> missing_without_layouts{};
  /// Doubts in the same case, one line each.
  std::vector<std::string> doubts_without_layouts{};
  /// What remains unproven: "that these are all files". Empty: nothing.
  std::string unstated{};
  /// The parameters that depend on it, ascending by name.
  std::vector<OpenShape> open_extents{};
  /// Whether each file's name states the number of files, and all exist.
  bool counted = false;
  /// The path of the model's configuration, which need not exist; empty: do not read it.
  std::filesystem::path config{};
};

/// Evaluates the names of files without opening them. Missing files are looked for.
/// @param source the path that the user named: a directory or one of the files.
Completeness state_names(const std::vector<FoundFile>& files, const std::filesystem::path& source);

/// Warnings for the user: doubts, and at most one line about what remains unproven.
/// @param takes selects the parameters that count, by their names in the source; empty: all.
std::vector<std::string> warnings_of(const Completeness& completeness,
                                     const std::function<bool(const std::string&)>& takes = {});

/// "complete, according to the index model.safetensors.index.json", "unknown whether these are all
/// files". Empty if something is missing.
std::string completeness_words(const Completeness& completeness);

}  // namespace reshardfs
