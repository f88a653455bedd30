// SPDX-License-Identifier: Apache-2.0
/// A checkpoint through the whole engine, without a mount: indexes, checkpoint set, source table,
/// target, and every byte of every view.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"
#include "reshardfs/strategy.h"

#include "checkpoint/checkpoint_set.h"

namespace reshardfs::damage {

struct Parameter {
  DType dtype = DType::kFloat32;
  Shape shape{};
  std::string bytes{};

  bool operator==(const Parameter&) const = default;
};
using Parameters = std::map<std::string, Parameter>;

/// The rank of the file is set; its index is read here.
RankFile rank_file(Rank rank, ByteSourcePtr source, const std::string& extension);

std::shared_ptr<const CheckpointSet> set_of(std::vector<RankFile> files);

/// What each target rank holds, as a mount would show it.
/// @throws Error as a mount would, or as reading its files would.
std::vector<Parameters> read_target(std::shared_ptr<const CheckpointSet> set,
                                    std::optional<Strategy> source, std::optional<Strategy> target);

/// The whole model.
Parameters read_whole(std::shared_ptr<const CheckpointSet> set,
                      std::optional<Strategy> source = std::nullopt);

}  // namespace reshardfs::damage
