// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dtensor.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "format/torch/mesh_part.h"
#include "format/torch/torch_values.h"

namespace reshardfs {
namespace {

[[noreturn]] void refuse_dtensor(const std::string& what, ErrorKind kind = ErrorKind::kBadInput) {
  throw dtensor_error(what, kind);
}

constexpr std::string_view kShardedTensor = "ShardedTensor";
constexpr std::string_view kFactor = "split_factor";

/// Each is looked for among all.
constexpr std::size_t kMostAttributes = 64;

class DTensorReader {
 public:
  DTensorReader(const PickleTree& tree, DTensorMeshes& meshes) : tree_(tree), meshes_(meshes) {}

  DTensorPart read(PickleValue value) const {
    const auto arguments = tree_.tuple(tree_.arguments(value));
    if (arguments.size() < 4) refuse_dtensor("but does not state its part");
    DTensorPart part;
    part.place.full_shape = full_shape(arguments[2]);
    if (is_sharded_tensor(arguments[1])) {
      take_shard(arguments[3], part);
      return part;
    }
    const PickleValue state = state_of(arguments[3]);
    part.local = tree_.find(state, "_local_tensor");
    if (part.local.is(PickleKind::kUnset)) refuse_dtensor("but does not state its part");
    const PickleValue spec = dictionary(tree_.find(state, "_spec"), "DTensorSpec");
    const DTensorMesh& mesh = mesh_at(tree_.find(spec, "mesh"));
    part.place.rank = mesh.rank;
    require_plain_order(spec);
    part.mesh_sizes = mesh.sizes;
    part.placements = placements_of(tree_.find(spec, "placements"));
    MeshPart found =
        part_on_mesh(part.place.full_shape, part.placements, mesh.sizes, mesh.coordinates);
    part.place.offsets = std::move(found.offsets);
    part.place.sizes = std::move(found.sizes);
    return part;
  }

 private:
  /// The attributes: (attributes of Python, {...}) or {...}.
  PickleValue state_of(PickleValue value) const {
    if (value.is(PickleKind::kDict)) return value;
    const auto states = tree_.tuple(value);
    if (states.size() != 2 || !states[1].is(PickleKind::kDict)) {
      refuse_dtensor("but does not state its part");
    }
    return states[1];
  }

  /// The arguments of the wrapper: (class, type, size, stride, ...).
  Shape full_shape(PickleValue value) const {
    const auto arguments = tree_.tuple(value);
    if (arguments.size() < 3) refuse_dtensor("but does not state its full shape");
    return torch_sizes(tree_, arguments[2], "its full shape");
  }

  bool is_sharded_tensor(PickleValue type) const {
    return tree_.global(type).value_or(PickleGlobal{}).name == kShardedTensor;
  }

  /// ([Shard, ...], metadata, process group, ...), as FSDP of the first generation writes. A Shard
  /// is (None, {"tensor", "metadata"}), and its metadata the same with offsets and sizes.
  void take_shard(PickleValue value, DTensorPart& part) const {
    const auto states = tree_.tuple(value);
    if (states.empty() || !states[0].is(PickleKind::kList)) {
      refuse_dtensor("but does not state its part");
    }
    const std::size_t count = tree_.count(states[0]);
    if (count == 0) return;
    if (count > 1) refuse_dtensor("of which a process has several parts", ErrorKind::kUnsupported);
    tree_.for_each(states[0], [&](PickleValue shard) {
      const PickleValue fields = state_of(tree_.state(shard));
      part.local = tree_.find(fields, "tensor");
      const PickleValue metadata = state_of(tree_.state(tree_.find(fields, "metadata")));
      part.place.offsets = shape_of(tree_.find(metadata, "shard_offsets"));
      part.place.sizes = shape_of(tree_.find(metadata, "shard_sizes"));
      const PickleValue device = tree_.state(tree_.find(metadata, "placement"));
      part.place.rank = tree_.integer(tree_.find(device, "_rank")).value_or(-1);
      return true;
    });
    const std::size_t dimensions = part.place.full_shape.size();
    if (part.place.offsets.size() != dimensions || part.place.sizes.size() != dimensions) {
      refuse_dtensor("whose part has other dimensions than itself");
    }
    for (std::size_t d = 0; d < dimensions; ++d) {
      const std::int64_t offset = part.place.offsets[d];
      const std::int64_t full = part.place.full_shape[d];
      const std::int64_t size = part.place.sizes[d];
      if (offset < 0 || size < 0 || offset > full || size > full - offset) {
        refuse_dtensor("whose part is outside of it");
      }
    }
  }

  Shape shape_of(PickleValue value) const {
    const std::vector<std::int64_t> all = numbers(value);
    return {all.begin(), all.end()};
  }

  /// The attributes of an object of a class.
  PickleValue dictionary(PickleValue object, std::string_view name) const {
    const auto maker = tree_.maker(object);
    const PickleValue state = tree_.state(object);
    const bool is_small = state.is(PickleKind::kDict) && tree_.count(state) <= kMostAttributes;
    if (!maker || maker->name != name || !is_small) {
      refuse_dtensor("but has no " + std::string(name) + " that can be understood");
    }
    return state;
  }

  const DTensorMesh& mesh_at(PickleValue value) const {
    const std::uint64_t key = value.payload() << 4U | static_cast<unsigned>(value.kind());
    const auto known = meshes_.find(key);
    if (known != meshes_.end()) return known->second;
    return meshes_.emplace(key, mesh_of(dictionary(value, "DeviceMesh"))).first->second;
  }

  /// The mesh as a tensor (until 2.8), or its layout.
  DTensorMesh mesh_of(PickleValue mesh) const {
    DTensorMesh out;
    out.sizes = sizes_of_layout(mesh);
    if (out.sizes.empty()) out.sizes = sizes_of_tensor(mesh);
    out.coordinates = numbers(tree_.find(mesh, "_coordinate_on_dim"));
    if (out.sizes.empty() || out.coordinates.size() != out.sizes.size() ||
        out.sizes.size() > kMostMeshDimensions) {
      refuse_dtensor("but does not state where in the mesh its process is");
    }
    for (std::size_t i = 0; i < out.sizes.size(); ++i) {
      if (out.sizes[i] < 1 || out.coordinates[i] < 0 || out.coordinates[i] >= out.sizes[i]) {
        refuse_dtensor("of a process that is outside of its mesh");
      }
    }
    out.rank = rank_of(mesh, out);
    return out;
  }

  std::vector<std::int64_t> sizes_of_tensor(PickleValue mesh) const {
    const auto arguments = tree_.tuple(tree_.arguments(tree_.find(mesh, "mesh")));
    if (arguments.size() < 4) return {};
    return numbers(arguments[2]);
  }

  std::vector<std::int64_t> sizes_of_layout(PickleValue mesh) const {
    const PickleValue layout = tree_.state(tree_.find(mesh, "_layout"));
    std::vector<std::int64_t> sizes;
    for (const PickleValue axis : tree_.tuple(tree_.find(layout, "axes"))) {
      const PickleValue shape = tree_.find(tree_.state(axis), "shape");
      const std::vector<std::int64_t> parts = numbers(shape);
      if (parts.size() != tree_.tuple(shape).size()) return {};
      std::int64_t size = 1;  // of no numbers
      for (const std::int64_t part : parts) size = mul_or_throw(size, part, "the size of a mesh");
      sizes.push_back(size);
    }
    return sizes;
  }

  /// The numbers of a list or tuple; empty for anything else.
  std::vector<std::int64_t> numbers(PickleValue value) const {
    std::vector<std::int64_t> all;
    bool good = true;
    const auto take = [&](PickleValue element) {
      const auto number = tree_.integer(element);
      good = good && number.has_value();
      if (number) all.push_back(*number);
      return good;
    };
    if (value.is(PickleKind::kList)) tree_.for_each(value, take);
    for (const PickleValue element : tree_.tuple(value)) take(element);
    return good ? all : std::vector<std::int64_t>();
  }

  /// Stated, or found in the list of all processes of the mesh, whose last dimension runs fastest.
  /// Later releases list those of the mesh that this one is a part of.
  std::int64_t rank_of(PickleValue mesh, const DTensorMesh& dimensions) const {
    if (const auto rank = tree_.integer(tree_.find(mesh, "_rank"))) {
      const std::vector<std::int64_t> all = numbers(tree_.find(mesh, "_flatten_rank_map"));
      if (all.empty() || !std::is_sorted(all.begin(), all.end())) throw order_error();
      return *rank;
    }
    const std::vector<std::int64_t> ranks = numbers(tree_.find(mesh, "_flatten_mesh_list"));
    std::int64_t place = 0;
    std::int64_t count = 1;
    for (std::size_t i = 0; i < dimensions.sizes.size(); ++i) {
      count = mul_or_throw(count, dimensions.sizes[i], "the number of processes of a mesh");
      place = place * dimensions.sizes[i] + dimensions.coordinates[i];
    }
    if (static_cast<std::int64_t>(ranks.size()) != count) {
      refuse_dtensor("but does not state the ranks of its mesh");
    }
    require_ascending(ranks, dimensions);
    return ranks[static_cast<std::size_t>(place)];
  }

  static void require_ascending(const std::vector<std::int64_t>& ranks, const DTensorMesh& mesh) {
    for (std::size_t d = 0; d < mesh.sizes.size(); ++d) {
      if (!ascends_along(d, ranks, mesh.sizes)) throw order_error();
    }
  }

  /// Later releases state the order in which mesh dimensions cut a dimension of the tensor.
  void require_plain_order(PickleValue spec) const {
    for (const PickleValue entry : tree_.tuple(tree_.find(spec, "shard_order"))) {
      const auto fields = tree_.tuple(tree_.arguments(entry));
      const std::vector<std::int64_t> order =
          fields.size() == 2 ? numbers(fields[1]) : std::vector<std::int64_t>();
      if (order.empty() || !std::is_sorted(order.begin(), order.end())) {
        refuse_dtensor("cut in another order than that of its mesh", ErrorKind::kUnsupported);
      }
    }
  }

  std::vector<MeshPlacement> placements_of(PickleValue value) const {
    std::vector<MeshPlacement> placements;
    for (const PickleValue one : tree_.tuple(value)) placements.push_back(placement_of(one));
    return placements;
  }

  MeshPlacement placement_of(PickleValue value) const {
    const auto maker = tree_.maker(value);
    const std::string_view name = maker ? maker->name : std::string_view();
    if (name == "Replicate") return {};
    if (name != "Shard" && name != "_StridedShard") {
      refuse_dtensor("placed as " +
                         (name.empty() ? "something else" : printable(std::string(name))) +
                         ", which does not tell its part",
                     ErrorKind::kUnsupported);
    }
    const std::int64_t dim = dimension_of(value);
    if (dim < 0) refuse_dtensor("cut along a dimension that it does not have");
    if (name == "Shard") return {dim};
    const auto parts = tree_.integer(tree_.find(tree_.state(value), kFactor));
    if (!parts) refuse_dtensor("which is a strided shard without its split_factor");
    return {dim, *parts};
  }

  /// Shard(dim), with the number as state or as argument.
  std::int64_t dimension_of(PickleValue shard) const {
    PickleValue number = tree_.find(tree_.state(shard), "dim");
    const auto arguments = tree_.tuple(tree_.arguments(shard));
    if (number.is(PickleKind::kUnset) && arguments.size() == 1) number = arguments[0];
    return tree_.integer(number).value_or(-1);
  }

  const PickleTree& tree_;
  DTensorMeshes& meshes_;
};

}  // namespace

bool is_dtensor(const PickleTree& tree, PickleValue value) noexcept {
  const auto maker = tree.maker(value);
  if (!maker || maker->name != "_rebuild_from_type_v2") return false;
  const auto arguments = tree.tuple(tree.arguments(value));
  const auto type = arguments.size() > 1 ? tree.global(arguments[1]) : std::nullopt;
  return type && (type->name == "DTensor" || type->name == kShardedTensor) &&
         type->module.starts_with("torch.distributed.");
}

DTensorPart read_dtensor(const PickleTree& tree, PickleValue value, DTensorMeshes& meshes) {
  return DTensorReader(tree, meshes).read(value);
}

}  // namespace reshardfs
