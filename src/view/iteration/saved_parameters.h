// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "format/mindformers/iteration_metadata_text.h"
#include "plan/target/target_table.h"

namespace reshardfs {

/// What a destination saved as MindSpore Transformers' Checkpoint 2.0 holds.
struct SavedSet {
  struct Member {
    const TargetParameter* parameter = nullptr;
    bool of_optimizer = false;  ///< it stands in the opt files
  };
  std::vector<Member> members;  ///< in the table's order
  /// Left out, as the format's reader takes nothing that has no layout and is not listed.
  std::vector<std::string> unlisted;
};

/// @param state_prefixes see weight_of().
/// @throws Error kUnsupported with the parameter: a raw slice, which has no place in the whole.
SavedSet saved_set(const TargetTable& target, const std::vector<std::string>& state_prefixes);

/// The members as metadata.json lists them: by the first rank that has them, then by the name of
/// their weight, the weight first and its states behind it.
/// @param target has a strategy; names refer to it.
/// @throws Error kUnsupported with the parameter: a cut that the format cannot state.
std::vector<SavedParameter> saved_parameters(const TargetTable& target, const SavedSet& set);

}  // namespace reshardfs
