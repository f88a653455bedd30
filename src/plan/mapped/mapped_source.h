// SPDX-License-Identifier: Apache-2.0
/// A source's parameters as a model map shows them: full tensors that are made of full tensors of
/// the source, whatever those are cut into.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "modelmap/mapping.h"
#include "plan/source/source_table.h"

namespace reshardfs {

struct MappedSourceOptions {
  /// What has no layout in the source is whole if all ranks hold the same bytes, which are read to
  /// find out; false: it is believed to be.
  bool compares_ranks = true;
  /// See TargetOptions.
  bool source_has_rules = false;
  /// See weight_of().
  std::vector<std::string> state_prefixes{};
  /// See modelmap::MapOptions.
  std::function<bool(const std::string& name)> leaves_out{};
  /// See modelmap::MapOptions.
  std::function<bool(const std::string& target)> wants{};
};

/// The full tensors of a table, in its order, as a map is to see them. Of what has no layout: as
/// its weight's if it is a state, or else as the files have it.
std::vector<modelmap::SourceTensor> full_tensors(const SourceTable& table,
                                                 const std::vector<std::string>& state_prefixes);

/// A table of the tensors that a mapping shows, in its order. Each has a grid and none a layout.
/// Tensors that differ from one of the source in their names alone have the same grid.
/// @param mapping of full_tensors(*source).
/// @throws Error kBadInput if a tensor that is read has no full tensor, since the ranks differ;
///         kUnsupported if one that is made of several has sources that an earlier map casts
///         differently.
std::shared_ptr<const SourceTable> mapped_source(std::shared_ptr<const SourceTable> source,
                                                 const modelmap::Mapping& mapping,
                                                 const MappedSourceOptions& options);

}  // namespace reshardfs
