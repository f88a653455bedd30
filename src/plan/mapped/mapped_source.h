// SPDX-License-Identifier: Apache-2.0
/// A source's parameters as a model map shows them: full tensors made of full tensors of the
/// source, which may be cut in any way.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "modelmap/mapping.h"
#include "plan/source/source_table.h"

namespace reshardfs {

struct MappedSourceOptions {
  /// True: a parameter without a layout in the source is whole if all ranks hold the same bytes,
  /// which are read and compared. False: it is assumed to be whole.
  bool compares_ranks = true;
  /// See TargetOptions.
  bool source_has_rules = false;
  /// See weight_of().
  std::vector<std::string> state_prefixes{};
  /// See modelmap::MapOptions.
  std::function<bool(const std::string& name)> leaves_out{};
  /// See modelmap::MapOptions.
  std::function<bool(const std::string& target)> wants{};
  /// See modelmap::MapOptions: not where the source is known to be a part of the model.
  bool checks_family = true;
};

/// The full tensors of a table, in its order, as input of a map. A parameter without a layout is
/// laid out like its weight if it is a state, or else is whole in each file.
std::vector<modelmap::SourceTensor> full_tensors(const SourceTable& table,
                                                 const std::vector<std::string>& state_prefixes);

/// A table of the tensors that a mapping shows, in its order. Each has a grid and no layout.
/// Tensors that are only renamed keep the source's grid.
/// @param mapping of full_tensors(*source).
/// @throws Error kBadInput if a source tensor has no full tensor because the ranks differ;
///         kUnsupported if a tensor is made of several that an earlier map casts differently.
std::shared_ptr<const SourceTable> mapped_source(std::shared_ptr<const SourceTable> source,
                                                 const modelmap::Mapping& mapping,
                                                 const MappedSourceOptions& options);

}  // namespace reshardfs
