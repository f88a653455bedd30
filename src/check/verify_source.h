// SPDX-License-Identifier: Apache-2.0
/// The files of a set, opened so that a damaged one does not hide the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "reshardfs/error.h"

#include "check/verify.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/stated_crcs.h"

namespace reshardfs {

struct VerifySource {
  /// The files that could be opened; nullptr if none could.
  std::shared_ptr<const CheckpointSet> set;
  std::string step;
  std::uint64_t files = 0;                   ///< all of the step, opened or not
  std::vector<std::filesystem::path> paths;  ///< of all these
  /// Ranks that have a directory but no file in it that can be read, ascending.
  std::vector<Rank> empty_ranks;
  Completeness completeness;
  std::vector<StoredFile> stored;  ///< those from which the files of `set` are read
  /// Of each file of `set`, whether it has what the set's table says. If not, reading its
  /// parameters tells what is wrong. Not vector<bool>: threads write it.
  std::vector<char> fits_table;
};

/// @param report gets the problems and warnings.
/// @throws Error if no files are found, or if they are no set at all.
VerifySource open_for_verify(const VerifyOptions& options, VerifyReport& report);

/// A problem of kind kIo or kFile from what was thrown. @throws the error again if it is kInternal.
Problem problem_from(const Error& error);

}  // namespace reshardfs
