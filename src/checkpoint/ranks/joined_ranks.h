// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/text/glob.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/completeness.h"
#include "checkpoint/whole/model_shapes.h"

namespace reshardfs {

/// Slices along dimension 0, one a rank, that the user has joined. Files tell their ranks, but none
/// how many there are: that is proven by counts in their names, and of single parameters by
/// config.json, or by a tensor of as many rows that each rank has whole (the bias of a weight, the
/// output for the embedding, the weight of a state).
/// Every member function may be called from any number of threads at once.
class JoinedRanks {
 public:
  /// @param checkpoint must outlive it.
  JoinedRanks(const CheckpointSet& checkpoint, NameGlobs join);

  bool takes(const std::string& name) const { return matches_any(join_, name); }
  /// From the first rank to the last that has a file: from rank 0 on, unless the names count their
  /// files otherwise.
  const RankRange& ranks() const noexcept { return ranks_; }
  /// Those of them that have no file, ascending.
  std::vector<Rank> absent() const { return checkpoint_.missing_ranks(ranks_); }

  /// Notes what is joined.
  /// @param joined its full shape
  /// @param file one that has a slice of it
  /// @throws Error kMissing, with the parameter, if it should have more rows.
  void add(const std::string& name, const Shape& joined, const RankFile& file);

  /// What has been found of all that was added.
  Completeness statement() const;

 private:
  struct Twin {
    std::string name{};
    std::int64_t rows = 0;
  };

  const ModelShapes& config();
  std::optional<Twin> twin_of(const std::string& name, const Shape& joined,
                              const RankFile& file) const;

  const CheckpointSet& checkpoint_;
  NameGlobs join_;
  RankRange ranks_;
  mutable std::mutex mutex_;
  std::optional<ModelShapes> config_;
  std::map<std::string, Shape> open_;
  bool by_config_ = false;
  bool by_twins_ = false;
};

}  // namespace reshardfs
