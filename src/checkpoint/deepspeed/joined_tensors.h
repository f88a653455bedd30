// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reshardfs/dtype.h"
#include "reshardfs/shape.h"

#include "checkpoint/deepspeed/affine_map.h"
#include "checkpoint/deepspeed/joined_source.h"
#include "checkpoint/deepspeed/module_copies.h"
#include "checkpoint/deepspeed/zero_places.h"
#include "checkpoint/ranks/discovery.h"
#include "format/file_index.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

/// What a tensor is: a parameter, or a state of the optimizer that belongs to it.
struct JoinedName {
  std::string parameter{};
  std::string state{};  ///< "exp_avg"; empty: it is the parameter

  std::string shown() const { return state.empty() ? parameter : state + "." + parameter; }
};

/// Collects tensors whose bytes are in several files, and makes one source of them.
class JoinedTensors {
 public:
  /// @param path of one of the files, which stands for all.
  explicit JoinedTensors(std::filesystem::path path);

  /// @return its number.
  std::size_t add_file(ByteSourcePtr file);
  /// @return where the sequence begins in the source.
  std::uint64_t add(std::shared_ptr<const JoinedPlaces> places);
  /// @param begin of its elements in the source.
  void add_tensor(JoinedName name, DType dtype, const Shape& shape, std::uint64_t begin);
  /// A tensor that is in one file. If it is not in C order there, it is listed as one that cannot
  /// be shown.
  void add_whole(const TorchTensor& tensor, std::size_t file, std::string state = {});
  bool has(const std::string& parameter) const { return parameters_.contains(parameter); }
  /// Whether layers of a pipeline are tied, and trained under names of their own.
  bool has_tied_layers() const;
  /// @return false if there is no parameter of that name.
  bool add_alias(const std::string& alias, const std::string& parameter);

  /// What `module` has of a parameter that is there already; nothing happens if it is not.
  /// @throws Error kBadInput, with the parameter, if its shape is another one.
  void add_copy(const TorchTensor& tensor, std::size_t file);

  /// What a rank of tensor parallelism has: makes its shards boxes of the whole parameters. All
  /// else stays whole.
  /// @throws Error kBadInput, with the parameter, if a shard has another shape than the map states.
  void cut(const AffineMap& map, std::size_t rank);

  /// A set of files, each of a rank of its own. What several of them have whole is the same.
  /// @param copies gets those of each file.
  /// @throws Error kBadInput if two tensors of a file have one name; kUnsupported if names do not
  ///         tell parameters from states.
  static Discovery finish(std::vector<JoinedTensors> all, std::vector<ModuleCopies>& copies);

 private:
  struct Tensor {
    TensorEntry entry{};
    std::string parameter{};  ///< whose cut it has
    bool is_box = false;
    Shape offsets{};  ///< of a box
  };

  void cut(const Tensor& shard, const AffineTensor& whole, std::size_t rank,
           std::vector<Tensor>& out);
  /// Adds what it has to the set.
  FoundFile finish_file(std::unordered_map<std::string, Shape>& shapes,
                        std::vector<ModuleCopies>& copies) &&;

  std::filesystem::path path_;
  std::vector<ByteSourcePtr> files_{};
  std::shared_ptr<PlacesList> places_ = std::make_shared<PlacesList>();
  std::vector<Tensor> tensors_{};
  std::unordered_map<std::string, std::size_t> parameters_{};  ///< their numbers in tensors_
  std::unordered_map<std::string, Shape> shapes_{};            ///< of all whole tensors, by name
  std::set<std::string> states_{};
  std::vector<ModuleCopy> copies_{};
  std::vector<std::string> not_compared_{};
  std::vector<RefusedTensor> refused_{};
};

}  // namespace reshardfs
