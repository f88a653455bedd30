// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "format/mindformers/iteration_metadata_text.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// The contents of a destination in the format of MindSpore Transformers' Checkpoint 2.0.
struct SavedSet {
  struct Member {
    const TargetParameter* parameter = nullptr;
    bool of_optimizer = false;  ///< stored in the opt files
  };
  std::vector<Member> members;  ///< in the table's order
  /// Names of parameters that metadata.json cannot list. They are left out, because the format's
  /// reader ignores them.
  std::vector<std::string> unlisted;
};

/// @param state_prefixes see weight_of().
/// @throws Error kUnsupported with the parameter if it is a raw slice, whose place in the full
///        tensor is unknown.
SavedSet saved_set(const TargetTable& target, const std::vector<std::string>& state_prefixes);

/// The members in the order of metadata.json: by the first rank that has them, then by the name of
/// their weight, each weight followed by its states.
/// @param target has a strategy; names refer to it.
/// @throws Error kUnsupported with the parameter if the format cannot state its cut.
std::vector<SavedParameter> saved_parameters(const TargetTable& target, const SavedSet& set);

}  // namespace reshardfs
