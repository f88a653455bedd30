// SPDX-License-Identifier: Apache-2.0
/// Parameters that a checkpoint has twice: `module` in a file of model_states has, in the type of
/// the training, what the optimizer has in float32. DeepSpeed rounds the one to the other after
/// each step. Where they differ, ranks were exchanged, or files are of two saves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/error.h"

#include "base/byte_range.h"
#include "checkpoint/deepspeed/joined_source.h"
#include "checkpoint/ranks/discovery.h"

namespace reshardfs {

struct ModuleCopy {
  std::string parameter{};
  DType dtype = DType::kFloat32;
  std::uint64_t begin = 0;  ///< in the joined source
  std::size_t elements = 0;
  DType copy_dtype = DType::kFloat32;
  ByteRange copy{};      ///< in its file
  std::size_t file = 0;  ///< of the copy, in the source's list
};

/// What some elements of each parameter say.
struct CopyEvidence {
  std::vector<std::string> differing{};  ///< parameters, each once
  std::size_t elements = 0;              ///< that were compared
  std::size_t different = 0;             ///< of these
  /// A file of which half of the elements or more differ; empty: there is none.
  std::string file{};
};

class ModuleCopies {
 public:
  /// @param copies of types that cast.h can convert.
  ModuleCopies(std::shared_ptr<const JoinedSource> source, std::vector<ModuleCopy> copies)
      : source_(std::move(source)), copies_(std::move(copies)) {}

  /// Compares three elements of what each file has of a parameter: the first, the last and one
  /// between. Of files that are far away, it reads nothing.
  void add_ends(CopyEvidence& out) const;
  /// Compares all elements. @return an error for each parameter that differs, or cannot be read.
  std::vector<Error> compare(const CopyQuestion& question) const;

 private:
  std::shared_ptr<const JoinedSource> source_;
  std::vector<ModuleCopy> copies_;
};

/// Leaves the rest of the comparison to the set. @return what the ends say.
CopyEvidence take_copies(std::vector<ModuleCopies> copies, Discovery& out);

}  // namespace reshardfs
