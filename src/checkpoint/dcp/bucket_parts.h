// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/dcp/bucket_names.h"
#include "format/torch/dcp_table.h"

namespace reshardfs {

/// What one rank has of a weight of one layer and one expert: a parameter of its model.
struct BucketPart {
  std::size_t tensor = 0;            ///< in DcpTable::tensors
  std::vector<std::size_t> boxes{};  ///< of the tensor, one behind the other in the parameter
  std::int64_t elements = 0;
  RegisteredPlace place{};
  std::size_t rank = 0;    ///< of those that share the weight
  std::size_t ranks = 1;   ///< that share it
  bool is_copy = false;    ///< of a parameter that another stage has
  bool is_second = false;  ///< whether a rank before has all of it, too
};

/// The parts of all weights, in the order in which the modules have them; nothing if tensors are
/// cut in a way that no parallelism of Megatron-Core cuts them.
/// @param groups of ranks that have parts of the model.
/// @param reason is set then.
std::optional<std::vector<BucketPart>> bucket_parts(const DcpTable& table, std::size_t groups,
                                                    std::string& reason);

/// Elements of a box.
std::int64_t box_elements(const DcpTable& table, const DcpTensor& tensor, std::size_t box);

}  // namespace reshardfs
