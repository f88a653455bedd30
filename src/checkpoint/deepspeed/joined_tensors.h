// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "checkpoint/deepspeed/joined_source.h"
#include "checkpoint/deepspeed/zero_places.h"
#include "checkpoint/ranks/discovery.h"
#include "format/file_index.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// Collects whole tensors whose bytes are in several files, and makes one source of them.
class JoinedTensors {
 public:
  /// @param directory in messages about the whole.
  explicit JoinedTensors(const std::filesystem::path& directory);

  /// @return its number.
  std::size_t add_file(ByteSourcePtr file);
  /// @return where the sequence begins in the source.
  std::uint64_t add(std::shared_ptr<const JoinedPlaces> places);
  /// @param begin of its elements in the source.
  void add_tensor(std::string name, DType dtype, const Shape& shape, std::uint64_t begin);
  /// A tensor that is in one file. If it is not in C order there, it is listed as one that cannot
  /// be shown.
  void add_whole(const TorchTensor& tensor, std::size_t file);
  bool has(const std::string& name) const { return shapes_.contains(name); }
  /// @return false if there is no tensor of that name.
  bool add_alias(std::string alias, const std::string& name);

  /// @param path of one of the files, which stands for all.
  /// @throws Error kBadInput if two tensors have one name.
  Discovery finish(const std::filesystem::path& path) &&;

 private:
  std::string directory_;
  std::vector<ByteSourcePtr> files_;
  std::shared_ptr<PlacesList> places_ = std::make_shared<PlacesList>();
  std::vector<TensorEntry> entries_;
  std::unordered_map<std::string, Shape> shapes_;
  std::vector<RefusedTensor> refused_;
};

}  // namespace reshardfs
