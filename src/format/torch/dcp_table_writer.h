// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "format/torch/dcp_table.h"

namespace reshardfs {

/// Where torch has the classes of the table.
struct DcpModules {
  std::string_view metadata = "torch.distributed.checkpoint.metadata";
  std::string_view filesystem = "torch.distributed.checkpoint.filesystem";
  std::string_view place = "_StorageInfo";  ///< the class
};
/// Before 2.0.
inline constexpr DcpModules kDcpModulesOf113{"torch.distributed._shard.checkpoint.metadata",
                                             "torch.distributed._shard.checkpoint.filesystem"};

/// Of hyper-parallel since 2026 (mindspore-ai/hyper-parallel
/// hyper_parallel/core/distributed_checkpoint/metadata.py, storage.py).
inline constexpr DcpModules kDcpModulesOfHyper{
    "hyper_parallel.core.distributed_checkpoint.metadata",
    "hyper_parallel.core.distributed_checkpoint.storage", "StorageInfo"};

/// The bytes of .metadata. The same table gives the same bytes. Objects are made by calling their
/// classes, so that fields which a release has more than others get their usual values.
/// @param table its boxes may be without elements. If tensors are found by their names, it is
///        hyper-parallel's: types are texts, and sizes are plain tuples, which its loader compares
///        with its own.
/// @throws Error kUnsupported with the parameter, if a name is not UTF-8.
std::string write_dcp_table(const DcpTable& table, const DcpModules& modules);

}  // namespace reshardfs
