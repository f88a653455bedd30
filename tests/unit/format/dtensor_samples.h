// SPDX-License-Identifier: Apache-2.0
/// Pickles of DTensors for tests, in the forms that several releases of PyTorch write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pickle_samples.h"

namespace reshardfs::test::pickled {

inline std::string placement(const std::string& name, const Pairs& state = {}) {
  const std::string made = new_object(global("torch.distributed.tensor.placement_types", name));
  return state.empty() ? made : build(made, named(state));
}

inline std::string shard(std::int64_t dim) {
  return placement("Shard", {{"dim", number(dim)}});
}

inline std::string replicate() {
  return placement("Replicate");
}

/// A mesh of processes with the place of one of them.
struct Mesh {
  Numbers sizes;
  Numbers place;
  Numbers ranks{};  ///< of all processes, flat; empty: 0, 1, ...
  std::int64_t rank = 0;
};

inline Numbers ranks_of(const Mesh& mesh) {
  if (!mesh.ranks.empty()) return mesh.ranks;
  std::int64_t count = 1;
  for (const std::int64_t size : mesh.sizes) count *= size;
  Numbers ranks;
  for (std::int64_t rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

inline std::string mesh_object(const Pairs& state) {
  return build(new_object(global("torch.distributed.device_mesh", "DeviceMesh")), named(state));
}

/// As 2.6 has it: the mesh is a tensor, and the rank follows from the place.
inline std::string mesh_26(const Mesh& mesh) {
  const Numbers ranks = ranks_of(mesh);
  const auto count = static_cast<std::int64_t>(ranks.size());
  return mesh_object({{"device_type", text("cpu")},
                      {"mesh", v2_tensor(storage("IntStorage", "900", count),
                                         {0, mesh.sizes, c_strides(mesh.sizes)})},
                      {"_flatten_mesh_list", numbers(ranks)},
                      {"_coordinate_on_dim", number_list(mesh.place)}});
}

/// As 2.14 has it: the mesh is a layout, and the rank is stated.
inline std::string mesh_214(const Mesh& mesh) {
  Values axes;
  for (const std::int64_t size : mesh.sizes) {
    const Numbers shape = size == 1 ? Numbers{} : Numbers{size};
    axes.push_back(build(new_object(global("torch.distributed._mesh_layout", "_FlatLayout")),
                         named({{"shape", numbers(shape)}, {"stride", numbers(shape)}})));
  }
  const std::string layout =
      build(new_object(global("torch.distributed._mesh_layout", "_MeshLayout")),
            named({{"axes", tuple(axes)}}));
  return mesh_object({{"_device_type", text("cpu")},
                      {"_layout", layout},
                      {"_flatten_rank_map", numbers(ranks_of(mesh))},
                      {"_rank", number(mesh.rank)},
                      {"_coordinate_on_dim", numbers(mesh.place)}});
}

/// The attributes of a spec. @param more of them, as later releases have.
inline std::string spec(const std::string& mesh, const Values& placements, const Pairs& more = {}) {
  Pairs state{{"mesh", mesh}, {"placements", tuple(placements)}, {"tensor_meta", kNone}};
  state.insert(state.end(), more.begin(), more.end());
  return build(new_object(global("torch.distributed.tensor._dtensor_spec", "DTensorSpec")),
               named(state));
}

/// What makes an object of a class of distributed tensors.
inline std::string from_type(const std::string& type, const Numbers& full_shape,
                             const std::string& state) {
  const std::string wrapper =
      tuple({type, global("torch", "float32"), numbers(full_shape), numbers(c_strides(full_shape)),
             number(0), kNone, kNone, kFalse});
  return reduce(global("torch._tensor", "_rebuild_from_type_v2"),
                tuple({torch_util("_rebuild_wrapper_subclass"), type, wrapper, state}));
}

inline std::string dtensor(const Numbers& full_shape, const std::string& local,
                           const std::string& spec_object) {
  const std::string state = named({{"_local_tensor", local}, {"_spec", spec_object}});
  return from_type(global("torch.distributed.tensor", "DTensor"), full_shape,
                   tuple({kNone, state}));
}

/// A part of a ShardedTensor: (None, {...}), as objects with slots have it.
inline std::string shard_of(const std::string& local, const Numbers& offsets, const Numbers& sizes,
                            std::int64_t rank) {
  const std::string device =
      build(new_object(global("torch.distributed.remote_device", "_remote_device")),
            named({{"_worker_name", kNone}, {"_rank", number(rank)}}));
  const std::string metadata =
      build(new_object(global("torch.distributed._shard.metadata", "ShardMetadata")),
            tuple({kNone, named({{"shard_offsets", number_list(offsets)},
                                 {"shard_sizes", number_list(sizes)},
                                 {"placement", device}})}));
  return build(new_object(global("torch.distributed._shard.sharded_tensor.shard", "Shard")),
               tuple({kNone, named({{"tensor", local}, {"metadata", metadata}})}));
}

inline std::string sharded_tensor(const Numbers& full_shape, const Values& shards) {
  const std::string type = global("torch.distributed._shard.sharded_tensor.api", "ShardedTensor");
  const std::string group =
      reduce(global("__builtin__", "getattr"), tuple({type, text("ProcessGroupState")}));
  const std::string metadata = new_object(
      global("torch.distributed._shard.sharded_tensor.metadata", "ShardedTensorMetadata"));
  return from_type(type, full_shape,
                   tuple({list(shards), metadata, build(new_object(group), "}"), kNone, kFalse}));
}

}  // namespace reshardfs::test::pickled
