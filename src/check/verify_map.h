// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "reshardfs/error.h"

#include "check/verify.h"
#include "conversion/model_maps.h"
#include "plan/source/source_table.h"

namespace reshardfs {

/// The set as it is laid out, or why it cannot be.
struct PreviewOfSet {
  std::shared_ptr<const SourceTable> table{};
  std::optional<Error> failure{};
};

/// Whether maps fit a set, and whether what they read once for several has one value: tensors that
/// are aliases of others, and elements that the other direction of a map repeats. Reads all of
/// these.
/// @param report gets the problems; what cannot be compared is a warning.
void verify_maps(const ModelMaps& maps, const PreviewOfSet& preview, const VerifyOptions& options,
                 Progress& progress, VerifyReport& report);

}  // namespace reshardfs
