// SPDX-License-Identifier: Apache-2.0
/// The step that files of ranks state as a tensor, beside the weights.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "checkpoint/holders.h"
#include "plan/source/source_table.h"

namespace reshardfs {

/// Whether it counts steps or epochs: one save has one value in all of its files, whatever its
/// stages are. By MindSpore's names.
bool is_step_counter(std::string_view name) noexcept;

/// Two holdings of a counter that differ, the first of which is the first one. Reads all of them.
/// @throws errors of the sources.
std::optional<std::pair<Holding, Holding>> differing_counters(std::span<const Holding> holdings);

/// The error for such a pair: kBadInput, with both files.
Error of_two_saves(const std::string& name, const std::pair<Holding, Holding>& differing);

/// @param takes selects parameters; empty: all.
/// @throws Error kBadInput with both files if a counter differs: they are of two saves.
void require_one_step(const SourceTable& table, const NameTaker& takes);

}  // namespace reshardfs
