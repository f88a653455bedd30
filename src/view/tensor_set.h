// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/tensor.h"

#include "plan/target_table.h"

namespace reshardfs {

/// The parameters of one rank of a table, which the views of the names below point into.
struct TensorSet::State {
  State(std::shared_ptr<const TargetTable> of, Rank held_by);

  std::shared_ptr<const TargetTable> table;
  Rank rank;
  std::vector<const TargetParameter*> parameters;
  std::unordered_map<std::string_view, std::size_t> numbers;
};

}  // namespace reshardfs
