// SPDX-License-Identifier: Apache-2.0
/// What a checkpoint file or set contains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/export.h"
#include "reshardfs/rank.h"
#include "reshardfs/shape.h"
#include "reshardfs/source_request.h"

namespace reshardfs {

struct CheckpointFile {
  Rank rank{};
  std::filesystem::path path{};
  std::uint64_t bytes = 0;       ///< of the whole file; if it is encrypted, as decrypted
  std::uint64_t parameters = 0;  ///< number of parameters in the file
};

/// Parameters of one name, type and slice shape, with the ranks that hold such a slice.
struct CheckpointParameter {
  std::string name{};  ///< as in the files
  DType dtype = DType::kFloat32;
  Shape shape{};              ///< of the slice, as in the files
  std::uint64_t bytes = 0;    ///< of one slice
  std::vector<Rank> ranks{};  ///< ascending; a rank with several such slices occurs once for each
};

/// What a set's metadata or a file of torch.save has that is not a tensor. It is never opened.
struct CheckpointByteItem {
  std::string name{};
  std::uint64_t bytes = 0;
  std::string what{};  ///< "a list": of a file of torch.save, which does not state the bytes
};

/// A tensor that cannot be shown.
struct CheckpointRefused {
  std::string name{};
  std::string reason{};
};

struct CheckpointContents {
  std::string step{};                   ///< empty if the file names carry none
  std::vector<std::string> steps{};     ///< all steps found, oldest first
  std::vector<CheckpointFile> files{};  ///< ascending by rank; a rank may have several parts
  std::vector<CheckpointParameter> parameters{};  ///< in file order, lowest rank first
  std::vector<CheckpointByteItem> byte_items{};   ///< by name
  std::vector<CheckpointRefused> refused{};
  std::vector<std::string> notes{};     ///< choices that reshardfs made, one line each
  std::vector<std::string> warnings{};  ///< facts that may surprise the user, one line each
  bool records_layouts = false;         ///< the set itself says how parameters are cut
};

/// Reads the indexes of a checkpoint file, or of all files of one step of a set. Strategies, maps
/// and new names play no part.
/// @throws Error kMissing, kBadInput, kUnsupported or kIo.
RESHARDFS_EXPORT CheckpointContents read_contents(const SourceRequest& request);

}  // namespace reshardfs
