// SPDX-License-Identifier: Apache-2.0
/// How a source was opened, for another process that opens the same again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "base/engine.h"
#include "cli/words/given_values.h"

namespace reshardfs {

struct KeptOpening {
  std::string source;
  std::vector<OptionValue> values;
  std::string identity;  ///< of all files that were read, as JSON
};

enum class KeptFor : std::uint8_t {
  kPickle,  ///< without secrets
  kFork     ///< stays in the memory of this process and of those that it forks
};

/// Whether it is the path of a file or a directory that exists, or of a cache or a map.
RESHARDFS_ENGINE bool names_path(const GivenOption& use);

/// Paths in it are absolute, and it names the step and the run that were taken.
/// @throws Error kUsage if the source or an option is a URL with a secret, for a pickle.
RESHARDFS_ENGINE KeptOpening kept_opening(const Given& given, const ConversionOptions& options,
                                          const Conversion& conversion, KeptFor use);

/// @param identity of a kept opening.
/// @throws Error kChanged if a file has another version than that.
RESHARDFS_ENGINE void require_same_files(const std::string& identity,
                                         const ConversionOptions& options,
                                         const Conversion& conversion);

}  // namespace reshardfs
