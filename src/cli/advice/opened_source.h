// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/engine.h"
#include "cli/describe/describe_set.h"
#include "cli/words/given.h"

namespace reshardfs {

/// A checkpoint whose headers have been read, for answers about a command line that names it.
class OpenedSource {
 public:
  /// @param named as the user names it.
  /// @param given has the options by which it is opened.
  /// @return nothing if it cannot be opened as a checkpoint.
  RESHARDFS_ENGINE static std::optional<OpenedSource> open(const std::string& named,
                                                           const Given& given);

  /// What --src-strategy must be if the ranks hold slices: the only strategy near that fits, or
  /// sizes that the slices prove. Nothing if it needs none, or if none is known.
  RESHARDFS_ENGINE std::optional<std::string> known_layout() const;
  /// Whether a strategy lays out the whole checkpoint. False if the strategy cannot be read.
  bool is_laid_out_by(const std::filesystem::path& strategy) const;
  /// Whether a strategy is of no more ranks than have files. False if it cannot be read.
  bool has_files_of_all_ranks(const std::filesystem::path& strategy) const;

 private:
  explicit OpenedSource(DescribedSource source) : source_(std::move(source)) {}

  DescribedSource source_;
};

/// The command line with the option that known_layout() finds, unless it has that option.
/// @param place of the source among the arguments.
Given with_known_layout(Given given, std::size_t place, const std::string& option);

}  // namespace reshardfs
