// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "reshardfs/conversion.h"

namespace reshardfs::python {

struct OpenedSource {
  Conversion conversion;
  std::vector<Rank> ranks;  ///< those that are shown, ascending
};

/// Opens what `reshardfs mount` would show.
/// @param words of its command line: the source, and options about the source and its target.
/// @throws Error with the command's words.
OpenedSource open_source(const std::vector<std::string>& words);

}  // namespace reshardfs::python
