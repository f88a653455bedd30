// SPDX-License-Identifier: Apache-2.0
/// What a strategy, or the files of the ranks, prove of how a job was parallelized.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reshardfs/layout.h"

#include "checkpoint/checkpoint_set.h"
#include "cli/describe/model_facts.h"
#include "plan/source/source_table.h"
#include "report/text/set_description.h"

namespace reshardfs {

/// How layouts cut weights: tp and dp where all that are cut are cut over one axis of the device
/// matrix, and both rows and columns are; else the most slices alone.
/// @param layouts of weights, as a strategy states them.
/// @param devices of a stage.
LayoutFacts cuts_of(const std::vector<const Layout*>& layouts, std::int64_t devices);

/// What the catalogue of a table states; nothing about sets that record boxes, which need no
/// stages.
LayoutFacts stated_layout(const SourceTable& table);

/// How many pipeline stages names prove: of stages the ranks hold the same names, and other ones
/// than those of other stages.
/// @param groups of each rank from 0 on, see HeldNames.
/// @return nothing: they prove none.
std::optional<std::int64_t> stages_by_names(const std::vector<std::size_t>& groups);

struct RankNames {
  HeldNames held{};
  std::vector<Rank> ranks{};          ///< ascending, each once
  std::vector<std::size_t> groups{};  ///< of each of these ranks
};

/// What each rank holds.
RankNames rank_names(const CheckpointSet& set);

}  // namespace reshardfs
