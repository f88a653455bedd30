// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/byte_range.h"
#include "format/torch/dcp_path.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// What is no tensor, as its saver wrote it: bytes that nobody here opens.
struct SavedObject {
  std::string name;
  std::filesystem::path file;
  ByteRange place;
  /// Why its bytes cannot be had; empty if they can.
  std::string problem{};
};

/// What a distributed checkpoint of PyTorch has beside its tensors, and what its names stand for:
/// for whoever writes such a checkpoint.
struct SavedObjects {
  std::vector<SavedObject> objects;
  /// Whether they are what PyTorch expects of objects: archives of torch.save.
  bool of_torch = true;
  SourceTreePtr tree;  ///< of their files
  /// By the names of tensors and of objects; those that are missing are keys themselves.
  std::unordered_map<std::string, DcpPath> paths;
};

}  // namespace reshardfs
