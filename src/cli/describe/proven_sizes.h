// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "check/diff_side.h"
#include "checkpoint/checkpoint_set.h"

namespace reshardfs {

/// What --src-strategy takes, and the set laid out by it.
struct ProvenSizes {
  std::string text{};  ///< "tp=4,pp=2"
  DiffSide side;
};

struct SizesQuestion {
  std::shared_ptr<const CheckpointSet> set{};
  std::filesystem::path path{};           ///< where a config.json may be
  std::filesystem::path linkless_root{};  ///< see Strategy::load()
  std::int64_t stages = 1;
  std::int64_t devices = 1;  ///< of each stage
  /// By names; nothing: they prove none.
  std::optional<std::uint64_t> layers{};
};

/// The only tensor parallelism with which shapes, names and config.json explain all slices of a set
/// whose ranks hold all layers in config.json. nullopt if there is none, or no tensor is cut.
std::optional<ProvenSizes> proven_sizes(const SizesQuestion& question);

}  // namespace reshardfs
