// SPDX-License-Identifier: Apache-2.0
/// Whether several ranks' copies of one slice have the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/process/progress.h"
#include "plan/reading/content.h"

namespace reshardfs {

/// A copy that is not as the others.
struct ReplicaDifference {
  Holding holding;
  /// What it was compared with: the lowest rank of the most that agree, as far as comparing with
  /// two of them can tell.
  Holding reference;
  std::uint64_t bytes = 0;  ///< that differ
  std::uint64_t first = 0;  ///< byte of the content
};

struct ReplicaReport {
  std::vector<ReplicaDifference> differences;
  /// Copies that could not be read, and why; they are not compared.
  std::vector<std::pair<Holding, Error>> unreadable;
};

/// Reads copies for one thread. Small ones that follow each other in their files are read together.
class CopyReader {
 public:
  /// @throws errors of the source; bytes are of one version of the file.
  void read(const Holding& copy, std::uint64_t offset, std::span<std::byte> out);

 private:
  /// Bytes of a file, around the copy that was read last.
  struct Block {
    std::uint64_t next = 0;  ///< where that copy ends in the file
    std::uint64_t begin = 0;
    std::vector<std::byte> bytes{};
  };

  bool read_near(const Holding& copy, std::span<std::byte> out);

  std::unordered_map<const RankFile*, Block> blocks_{};
};

/// Reads all copies once, in blocks of 1 MiB; where most differ from the first, twice. One copy
/// alone is read, so that it is known to be readable.
/// @param holdings of one type, shape and size; at least one.
ReplicaReport compare_replicas(std::vector<Holding> holdings, CopyReader& reader,
                               Progress& progress);

/// Where byte `position` of an entry's content is in its file.
std::uint64_t file_offset(const TensorEntry& entry, std::uint64_t position);

}  // namespace reshardfs
