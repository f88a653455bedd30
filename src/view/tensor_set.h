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

/// Tensors for those who know what the elements are made of.
struct TensorAccess {
  static Tensor whole(std::shared_ptr<const TensorElements> elements);
  /// As VirtualFile::sources_of(), of a tensor that is no box of another.
  static std::vector<const ByteSource*> sources_of(const Tensor& tensor, std::uint64_t offset,
                                                   std::uint64_t length);
};

/// A parameter that the rank has. It points into the table.
ShownElements elements_of(const TargetTable& table, Rank rank, const TargetParameter& parameter);

/// The parameters of one rank of a table, which the views of the names below point into.
struct TensorSet::State {
  State(std::shared_ptr<const TargetTable> of, Rank held_by);

  std::shared_ptr<const TargetTable> table;
  Rank rank;
  std::vector<const TargetParameter*> parameters;
  std::unordered_map<std::string_view, std::size_t> numbers;
};

}  // namespace reshardfs
