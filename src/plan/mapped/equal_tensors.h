// SPDX-License-Identifier: Apache-2.0
/// Checks whether tensors that a model map assumes to be equal are: aliases, and copies that it
/// repeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/source/cell_grid.h"
#include "plan/target/shown_tensor.h"

namespace reshardfs {

/// Two tensors of the same type and shape. Both are complete.
struct TensorPair {
  std::string name{};  ///< of the first one, in the source
  CellGridPtr grid;
  CellGridPtr other;
  bool has_fill = false;  ///< literals of `other` count: they are not padding
};

/// The number of bytes that differ in a range of both.
/// @param has_fill as in TensorPair.
/// @throws what the sources throw.
std::uint64_t differing_bytes(const ShownTensor& one, const ShownTensor& other,
                              const ByteRange& range, bool has_fill);

struct PairFindings {
  std::vector<std::size_t> differing;  ///< numbers of pairs, ascending
  std::size_t unreadable = 0;  ///< number of samples that could not be read, and so prove nothing
};

/// Compares all bytes if this takes at most kReplicaReads reads of kReplicaSampleBytes. Otherwise
/// it compares that many samples, spread over the pairs: the beginning, the end, and offsets in
/// between, always the same ones.
PairFindings compare_pairs(const std::vector<TensorPair>& pairs);

}  // namespace reshardfs
