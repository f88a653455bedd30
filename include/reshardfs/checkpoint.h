// SPDX-License-Identifier: Apache-2.0
/// What a checkpoint file or set contains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/export.h"
#include "reshardfs/shape.h"

namespace reshardfs {

struct CheckpointQuery {
  /// As in ConversionOptions.
  std::string src_pattern{};
  std::string step = "latest";
  bool check_crc = false;
  std::filesystem::path dec_key_file{};
  std::string dec_mode = "AES-GCM";
  bool no_symlinks = false;
};

struct CheckpointFile {
  std::int64_t rank = 0;
  std::filesystem::path path{};
  std::uint64_t bytes = 0;
  std::uint64_t parameters = 0;
};

/// Parameters of one name, type and slice shape, with the ranks that hold such a slice.
struct CheckpointParameter {
  std::string name{};
  DType dtype = DType::kFloat32;
  Shape shape{};            ///< of the slice, as the files have it
  std::uint64_t bytes = 0;  ///< of one slice
  std::vector<std::int64_t> ranks{};
};

struct CheckpointContents {
  std::string step{};                   ///< empty if the file names carry none
  std::vector<std::string> steps{};     ///< all steps found, oldest first
  std::vector<CheckpointFile> files{};  ///< ascending by rank; a rank may have several parts
  std::vector<CheckpointParameter> parameters{};  ///< in file order, lowest rank first
  std::vector<std::string> notes{};               ///< choices made, one line each
};

/// Reads the indexes of a checkpoint file, or of all files of one step of a set.
/// @throws Error kMissing, kBadInput, kUnsupported or kIo.
RESHARDFS_EXPORT CheckpointContents read_contents(const std::filesystem::path& path,
                                                  const CheckpointQuery& query);

}  // namespace reshardfs
