// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "reshardfs/rank.h"

#include "format/file_index.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// One rank's file of the chosen step, or one of its parts.
struct RankFile {
  Rank rank;
  std::filesystem::path path;
  ByteSourcePtr source;
  std::shared_ptr<const FileIndex> index;
  std::int64_t part = -1;  ///< the n of "_part<n>" in the file's name; -1: the rank's only file
  /// A file of torch.save itself, if it is one, whatever its name is; `source` may have more than
  /// it.
  ByteSourcePtr saved{};
  /// Set if the first read of `source` compares the index: the same bytes without the comparison,
  /// for samples, which do not justify its cost.
  ByteSourcePtr unexamined{};

  bool of_torch() const noexcept { return saved != nullptr; }
  /// Bytes of the file.
  std::uint64_t bytes() const { return saved ? saved->size() : source->size(); }
};

}  // namespace reshardfs
