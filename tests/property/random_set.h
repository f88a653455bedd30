// SPDX-License-Identifier: Apache-2.0
/// Random checkpoints: full tensors, and two strategies that both divide them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mindspore_files.h"
#include "naive.h"
#include "random_layout.h"

namespace property {

struct Tensor {
  std::string name;
  std::size_t element_size = 0;
  Record full;
};

/// One of the two strategies: for each pipeline stage the layouts of the tensors in it.
struct Side {
  bool none = false;         ///< no strategy: every rank holds everything
  bool rules = false;        ///< the strategy is a file of rules
  std::int64_t devices = 1;  ///< of each stage
  naive::Numbers matrix{};   ///< of all layouts, if the strategy is rules
  std::vector<StageLayouts> stages;

  std::int64_t rank_count() const { return devices * static_cast<std::int64_t>(stages.size()); }
  /// Ranks of a conversion to this side; its equal files count once.
  std::int64_t target_count() const { return none ? 1 : rank_count(); }
};

struct RandomSet {
  Side src;
  Side dst;
  std::vector<Tensor> laid;    ///< in both strategies
  std::vector<Tensor> unlaid;  ///< in neither: equal on all ranks
};

RandomSet make_random_set(Random& random, std::size_t tensors);

using Records = std::map<std::string, Record>;

/// What the file of a rank holds.
Records rank_records(const RandomSet& set, const Side& side, std::int64_t rank);

/// For each element of a tensor the lowest rank that holds it.
std::vector<std::int64_t> owners(const Tensor& tensor, const Side& side);

/// What a rank holds of a tensor, or nothing if the rank's stage does not have it.
std::optional<naive::Held> held_on(const Tensor& tensor, const Side& side, std::int64_t rank);

/// Writes directory/rank_<r>/model-1_7.ckpt in one of the styles that occur.
void write_source(const RandomSet& set, const Side& side, const std::filesystem::path& directory,
                  Random& random);

/// Writes the strategy in one of its forms (rules, or merged or a file for each stage, protobuf or
/// JSON).
/// @return its path, or nothing if there is no strategy.
std::optional<std::filesystem::path> write_strategy(const Side& side,
                                                    const std::filesystem::path& stem,
                                                    Random& random);

}  // namespace property
