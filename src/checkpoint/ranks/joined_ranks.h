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

/// Slices along dimension 0, one for each rank, that the user has joined. Files state their ranks,
/// but not how many ranks there are. That number is proven by counts in file names. For single
/// parameters, config.json proves it, or a tensor with the same number of rows that each rank has
/// whole (the bias of a weight, the output for the embedding, the weight of a state). Every member
/// function may be called from any number of threads at once.
class JoinedRanks {
 public:
  /// @param checkpoint must outlive it.
  JoinedRanks(const CheckpointSet& checkpoint, NameGlobs join);

  bool takes(const std::string& name) const { return matches_any(join_, name); }
  /// From the first rank to the last one with a file. The first is rank 0, unless the names count
  /// their files otherwise.
  const RankRange& ranks() const noexcept { return ranks_; }
  /// The ranks in ranks() that have no file, ascending.
  std::vector<Rank> absent() const { return checkpoint_.missing_ranks(ranks_); }

  /// Records a joined parameter.
  /// @param joined its full shape
  /// @param file a file with one of its slices
  /// @throws Error kMissing, with the parameter, if it should have more rows.
  void add(const std::string& name, const Shape& joined, const RankFile& file);

  /// The findings about all added parameters.
  Completeness statement() const;

 private:
  const ModelShapes& config();
  /// A tensor that each rank has whole, with as many rows as `joined` should have; nullptr: none.
  const TensorEntry* twin_of(const NamedExtent& joined, const RankFile& file) const;

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
