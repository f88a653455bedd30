// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/engine.h"
#include "modelmap/model_map.h"
#include "modelmap/tensor_plan.h"

namespace reshardfs {

/// The directory of the installed model maps: relative to the running program, or else the one that
/// the build configured. It may not exist.
std::filesystem::path installed_maps_directory();

/// Sets the program whose directory counts, for a library in a program that is not reshardfs. Call
/// this before any other function here.
RESHARDFS_ENGINE void set_program(const std::filesystem::path& path);

/// What maps call the side of Hugging Face's files.
inline constexpr const char* kHuggingFaceSide = "Hugging Face";

/// Reads the installed maps, each file once. Sorted by name; empty if the directory does not exist.
/// Files that say "Not for use alone", which other maps extend, are left out.
/// @throws Error kIo or kBadInput with the file.
std::vector<modelmap::ModelMap> installed_maps();

/// The plan of transformers for the first of these types that has one; nothing: none has, or the
/// table is not installed.
/// @throws Error kIo or kBadInput with the file.
std::optional<TensorPlan> read_installed_plan(const std::vector<std::string>& types);

/// Whether `name` is the path of a file rather than the name of an installed map: it has a '/' or
/// ends in .toml.
bool is_map_path(const std::string& name);

struct NamedMap {
  std::filesystem::path file{};  ///< absolute
  std::string variable{};        ///< what the name states as --map-var does; perhaps nothing
};

/// What `name` refers to: an installed map, by any of its names, or a path.
/// @throws Error kMissing with the names of the installed maps.
NamedMap find_map(const std::string& name);

}  // namespace reshardfs
