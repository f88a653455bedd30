// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/byte_range.h"
#include "format/torch/dcp_table.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// An object that is not a tensor, as bytes that reshardfs does not interpret.
struct SavedObject {
  std::string name;
  std::filesystem::path file;
  ByteRange place;
  /// Why its bytes cannot be read; empty if they can.
  std::string problem{};
};

/// The objects of a PyTorch distributed checkpoint that are not tensors, and the meaning of its
/// names; needed to write such a checkpoint again.
struct SavedObjects {
  std::vector<SavedObject> objects;
  /// Whether the objects are archives of torch.save, as PyTorch expects.
  bool of_torch = true;
  /// Whether they are plain pickles, as hyper-parallel since 2026 expects.
  bool of_hyper = false;
  SourceTreePtr tree;  ///< in which their files are opened
  /// The paths of tensors and objects by their names; a name that is missing is itself the key.
  std::unordered_map<std::string, DcpPath> paths;
};

}  // namespace reshardfs
