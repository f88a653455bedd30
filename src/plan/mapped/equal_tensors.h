// SPDX-License-Identifier: Apache-2.0
/// Whether tensors that a model map takes to be equal are: aliases, and copies that it repeats.
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
};

/// How many bytes differ in a range of both.
/// @throws what the sources throw.
std::uint64_t differing_bytes(const ShownTensor& one, const ShownTensor& other,
                              const ByteRange& range);

struct PairFindings {
  std::vector<std::size_t> differing;  ///< numbers of pairs, ascending
  std::size_t unreadable = 0;          ///< samples: what cannot be read tells nothing
};

/// Compares all bytes where that takes no more than kReplicaReads reads of kReplicaSampleBytes;
/// else as many samples, spread over the pairs: begin, end, and places in between, always the same.
PairFindings compare_pairs(const std::vector<TensorPair>& pairs);

}  // namespace reshardfs
