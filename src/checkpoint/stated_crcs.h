// SPDX-License-Identifier: Apache-2.0
/// The CRCs that the files of a set state of their own bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "reshardfs/error.h"

#include "base/byte_range.h"
#include "base/process/progress.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/ranks/rank_file.h"
#include "checkpoint/ranks/rank_files.h"
#include "format/input_format.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// A file as it is stored. A file of a set may be read from several of them.
struct StoredFile {
  /// The position of the set's file; nothing if only objects beside the tensors are in it.
  std::optional<std::size_t> number{};
  std::filesystem::path path{};
  ByteSourcePtr source{};
  const InputFormat* format = nullptr;
  /// The archives of torch.save in it; empty: the whole file is of `format`.
  std::vector<ByteRange> archives{};
  /// Why it could not be opened; `source` is nullptr then.
  std::optional<Error> error{};
};

/// @param found what `files` were opened from, in the same order.
/// @param catalogue of the set, for objects that are not tensors; may be nullptr.
std::vector<StoredFile> stored_files(std::span<const FoundFile> found,
                                     std::span<const RankFile> files, const Catalogue* catalogue);

struct CrcFinding {
  /// kNoTrailer also for an archive that states no CRC for some of its bytes.
  CrcCheck check = CrcCheck::kNoTrailer;
  /// Set for kBad, and if the file could not be read; names the file.
  std::optional<Error> error{};
};

/// Compares all files with their CRCs. Each thread holds a block of 1 MiB.
/// @param threads as for parallel_for().
/// @param progress gets the bytes that are read; may be nullptr.
/// @return in the order of `files`.
std::vector<CrcFinding> compare_crcs(std::span<const StoredFile> files, std::size_t threads,
                                     Progress* progress);

}  // namespace reshardfs
