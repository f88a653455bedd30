// SPDX-License-Identifier: Apache-2.0
/// Files that trainers save beside a model, by their names: the optimizer's states, an adapter, and
/// states of a run that have no weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "storage/source_tree.h"

namespace reshardfs {

enum class SideFile : std::uint8_t {
  kNone,       ///< may be a model
  kOptimizer,  ///< "optimizer.bin", "optim_world_size_2_rank_0.pt", and directories such as
               ///< "optimizer_0"
  kAdapter,    ///< see is_adapter_file()
  kRunState,   ///< "scheduler.pt", "rng_state_0.pth", "training_args.bin", "data.pt": no weights
};

SideFile side_file(std::string_view name) noexcept;

/// Whether a file of this name has no weights, so that it never stands for its directory.
bool has_no_weights(std::string_view name) noexcept;

/// The error for a directory whose only checkpoint files have no weights. Names the directories
/// below it that have a model.
/// @param names of the files, at least one.
/// @throws Error kIo if the directory cannot be listed.
Error without_weights(const std::filesystem::path& directory, const std::vector<std::string>& names,
                      const SourceTreePtr& tree);

/// Beside the models of a pipeline, a file of any name may be what a training has measured.
/// @param name of a file, the only one that could be the checkpoint.
/// @throws Error kMissing if directories beside it have models.
void refuse_beside_models(const std::filesystem::path& directory, const std::string& name,
                          const SourceTreePtr& tree);

}  // namespace reshardfs
