// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reshardfs/tensor.h"

#include "plan/target/target_table.h"
#include "view/files/tensor_elements.h"

namespace reshardfs {

/// Access to the sources of a tensor's elements, for code inside reshardfs.
struct TensorAccess {
  static Tensor whole(std::shared_ptr<const TensorElements> elements);
};

/// The elements of a parameter that the rank has. The result points into the table.
ShownElements elements_of(const TargetTable& table, Rank rank, const TargetParameter& parameter);

/// The parameters of one rank of a table. The string_views below point into the table.
struct TensorSet::State {
  State(std::shared_ptr<const TargetTable> of, Rank held_by);

  std::shared_ptr<const TargetTable> table;
  Rank rank;
  std::vector<const TargetParameter*> parameters;
  std::unordered_map<std::string_view, std::size_t> numbers;
};

}  // namespace reshardfs
