// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reshardfs/conversion.h"

#include "cli/words/kept_opening.h"

namespace reshardfs::python {

struct OpenedSource {
  Given given;
  ConversionOptions options;
  Conversion conversion;
};

/// Opens what `reshardfs mount` would show.
/// @param opening where it has an identity, the files must be the same as then.
/// @throws Error with the command's words.
OpenedSource open_source(const KeptOpening& opening);

}  // namespace reshardfs::python
