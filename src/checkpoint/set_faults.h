// SPDX-License-Identifier: Apache-2.0
/// Faults in parts of a set, for commands that look at the rest all the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/rank.h"

#include "checkpoint/completeness.h"
#include "checkpoint/stated_crcs.h"

namespace reshardfs {

enum class FaultKind : std::uint8_t {
  kFile,         ///< a file cannot be opened, or its index cannot be read
  kStep,         ///< a rank has no finished file of the step
  kMissingPart,  ///< a file lacks what the set lists for it
};

struct SetFault {
  FaultKind kind = FaultKind::kFile;
  std::optional<Rank> rank{};
  Error error;
};

/// What CheckpointSet::open_readable() found, with or without a set.
struct SetFaults {
  std::vector<SetFault> list{};
  std::vector<std::string> warnings{};
  std::string step{};
  std::vector<std::filesystem::path> paths{};  ///< of all files of the step, readable or not
  /// Ranks that have a directory but no file of the step in it, ascending.
  std::vector<Rank> empty_ranks{};
  Completeness completeness{};       ///< without what the files that cannot be read would add
  std::vector<StoredFile> stored{};  ///< those from which the set's files are read
  /// Of each file of the set, whether it has what the set's table says. If not, reading its
  /// parameters tells what is wrong. Not vector<bool>: threads write it.
  std::vector<char> fits_table{};
};

}  // namespace reshardfs
