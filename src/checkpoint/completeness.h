// SPDX-License-Identifier: Apache-2.0
/// Whether what lies there is all that was saved, and what states it: counts in the names of files,
/// an index, a table, config.json. Stated once, when a set is opened; every command uses it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/shape.h"

namespace reshardfs {

struct FoundFile;

/// A parameter whose full shape follows from the files alone, so that it is smaller without the
/// last of them.
struct OpenShape {
  std::string name{};
  Shape shape{};  ///< by the files that are there
};

struct Completeness {
  /// What states what must be there, where all of that is there: "counts in 2 names".
  std::vector<std::string> grounds{};
  /// What the set should have by one of these, but has not. CheckpointSet::open() throws the first.
  std::vector<Error> missing{};
  /// The same of single parameters, which may be left out: each with its name.
  std::vector<Error> short_parameters{};
  /// What contradicts what is stated, but takes nothing away: a warning, and damage to `verify`.
  std::vector<Error> differences{};
  /// What has only been taken in part, or not at all, one line each.
  std::vector<std::string> doubts{};
  /// What nothing states: "that these are all files". Empty: all is stated.
  std::string unstated{};
  /// What depends on it. Ascending by name.
  std::vector<OpenShape> open_extents{};
  /// Whether each file's name counts the files, and all are there.
  bool counted = false;
  /// Where the model's configuration may be; empty: it is not to be read.
  std::filesystem::path config{};
};

/// What the names of files tell. Nothing is opened; where files are missing, these are looked for.
/// @param source what the user named: a directory or one of the files.
Completeness state_names(const std::vector<FoundFile>& files, const std::filesystem::path& source);

/// What the user is to be told: doubts, and one line at most about what nothing states.
/// @param takes parameters that count, by their names in the source; nothing: all.
std::vector<std::string> warnings_of(const Completeness& completeness,
                                     const std::function<bool(const std::string&)>& takes = {});

/// "complete by: the index model.safetensors.index.json", "nothing states that these are all
/// files". Empty where something is missing.
std::string completeness_words(const Completeness& completeness);

}  // namespace reshardfs
