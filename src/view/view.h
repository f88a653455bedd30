// SPDX-License-Identifier: Apache-2.0
/// A view is one way to show the converted checkpoint as files. To add one: a file with a builder
/// function, and a line in view_registry.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "plan/target_table.h"

namespace reshardfs {

/// What a view may use. All of it outlives the files.
struct ViewContext {
  const ConversionOptions& options;
  /// The destination ranks to show, ascending.
  const std::vector<std::int64_t>& ranks;
  std::shared_ptr<const TargetTable> target;
  /// The same parameters without a destination strategy: one rank that has everything whole.
  /// nullptr if there is no such whole.
  std::shared_ptr<const TargetTable> whole;
  /// For lines the user should see.
  std::vector<std::string>& warnings;
};

using ViewBuilder = std::vector<OutputFile> (*)(const ViewContext&);

/// All views, in the order in which their files are listed.
const std::vector<ViewBuilder>& view_registry();

std::vector<OutputFile> rank_files_view(const ViewContext& context);
std::vector<OutputFile> merged_view(const ViewContext& context);

}  // namespace reshardfs
