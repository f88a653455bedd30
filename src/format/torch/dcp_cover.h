// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "format/torch/dcp_table.h"

namespace reshardfs {

/// Why the boxes of a tensor are not all of it, each element once. They must be in bounds.
/// @param replicas whether equal boxes count once.
std::optional<std::string> cover_problem(const DcpTable& table, const DcpTensor& tensor,
                                         bool replicas);

}  // namespace reshardfs
