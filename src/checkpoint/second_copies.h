// SPDX-License-Identifier: Apache-2.0
/// What a set has twice: the parameters that it shows, and copies that must agree with them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "reshardfs/error.h"

#include "base/process/progress.h"

namespace reshardfs {

struct CopyQuestion {
  /// Selects parameters, by their names in the source.
  std::function<bool(const std::string& name)> takes{};
  std::size_t threads = 0;  ///< 0: a number that suits the machine
  Progress& progress;
};

/// Reads all of both. @return an error for each parameter that differs, or cannot be read.
using CompareCopies = std::function<std::vector<Error>(const CopyQuestion& question)>;

}  // namespace reshardfs
