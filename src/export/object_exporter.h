// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export/exporter.h"

namespace reshardfs {

/// export_conversion() to an object store. There are no locks there, and nothing can be renamed or
/// appended to: objects appear when they are complete, the manifest is written anew now and then,
/// and what two writers of the same files write is the same.
ExportResult export_to_store(const Conversion& conversion,
                             const ConversionOptions& conversion_options,
                             const ExportOptions& options);

}  // namespace reshardfs
