// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/items/item_sharding.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "format/torch/pickle_globals.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {
namespace {

constexpr std::string_view kDTensorType = "DTensorShardingMetadata";
constexpr std::string_view kBoxesType = "default_tensor_v1";

[[noreturn]] void refuse_sharding(const std::string& what) {
  throw Error(ErrorKind::kBadInput, std::string(kItemTable) + " " + what);
}

bool is_sequence(PickleValue value) {
  return value.is(PickleKind::kList) || value.is(PickleKind::kTuple);
}

std::string text_of(const PickleTree& tree, PickleValue value) {
  return printable(std::string(tree.text(value).value_or(kind_words(value.kind()))));
}

/// Of a box that begins there; both are not negative.
bool fits(const Shape& offsets, const Shape& sizes, const Shape& full) {
  for (std::size_t d = 0; d < full.size(); ++d) {
    if (offsets[d] > full[d] || sizes[d] > full[d] - offsets[d]) return false;
  }
  return true;
}

}  // namespace

ItemShardings::Numbers ItemShardings::numbers(PickleValue value, const char* what) const {
  Numbers all;
  bool good = is_sequence(value);
  for_each_element(tree_, value, [&](PickleValue element) {
    const auto number = tree_.integer(element);
    good = number && *number >= 0 && *number < kMostTorchElements;
    if (good) all.push_back(*number);
    return good;
  });
  if (!good) refuse_sharding(std::string("states no ") + what + " for it");
  return all;
}

Shape ItemShardings::shape(PickleValue value, const char* what) const {
  const Numbers all = numbers(value, what);
  if (all.size() > kMostTorchDimensions)
    refuse_sharding(std::string("states no ") + what + " for it");
  return {all.begin(), all.end()};
}

std::vector<Shape> ItemShardings::shapes(PickleValue value, const char* what) const {
  if (!is_sequence(value)) refuse_sharding(std::string("states no ") + what + " for it");
  std::vector<Shape> all;
  for_each_element(tree_, value, [&](PickleValue element) {
    all.push_back(shape(element, what));
    return true;
  });
  return all;
}

MeshPlacement ItemShardings::placement(PickleValue value) const {
  const PickleValue type = tree_.find(value, "type");
  const std::string_view name = tree_.text(type).value_or(std::string_view());
  if (name == "Replicate") return {};
  if (name != "Shard" && name != "StridedShard") {
    refuse_sharding("places it as '" + text_of(tree_, type) +
                    "', which does not say where its parts lie");
  }
  MeshPlacement out;
  const auto dim = tree_.integer(tree_.find(value, "dim"));
  if (!dim || *dim < 0) refuse_sharding("cuts it along a dimension that it does not have");
  out.dim = *dim;
  if (name == "Shard") return out;
  const auto factor = tree_.integer(tree_.find(value, "split_factor"));
  if (!factor || *factor < 1) refuse_sharding("has a strided shard of it without its split_factor");
  out.split_factor = *factor;
  return out;
}

void ItemShardings::take_mesh(PickleValue data, ItemSharding& out) {
  const PickleValue spec = tree_.find(data, "mesh_spec");
  Numbers sizes = numbers(tree_.find(spec, "mesh_shape"), "mesh_shape");
  Numbers ranks = numbers(tree_.find(spec, "mesh_data"), "mesh_data");
  if (sizes.size() > kMostMeshDimensions) refuse_sharding("states no mesh_shape for it");
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count = mul_or_throw(count, size, "the size of a mesh");
  if (count != static_cast<std::int64_t>(ranks.size()) || count == 0) {
    refuse_sharding("has " + std::to_string(ranks.size()) +
                    " ranks in its mesh_data, but a mesh_shape of " + std::to_string(count));
  }
  const PickleValue placements = tree_.find(data, "placements");
  for_each_element(tree_, placements, [&](PickleValue one) {
    out.placements.push_back(placement(one));
    if (out.placements.size() > sizes.size()) return false;
    if (out.placements.back().dim < static_cast<std::int64_t>(out.full_shape.size())) return true;
    refuse_sharding("cuts it along a dimension that it does not have");
  });
  if (!is_sequence(placements) || out.placements.size() != sizes.size()) {
    refuse_sharding("does not have one placement of it for each dimension of the mesh");
  }
  auto& known = meshes_[{sizes, ranks}];
  if (!known) {
    auto mesh = std::make_shared<ItemMesh>();
    mesh->sizes = std::move(sizes);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (mesh->places.emplace(ranks[i], i).second) continue;
      refuse_sharding("has rank " + std::to_string(ranks[i]) + " twice in its mesh_data");
    }
    known = std::move(mesh);
  }
  out.mesh = known;
  for (std::size_t d = 0; d < out.placements.size(); ++d) {
    const bool cuts = out.placements[d].dim != MeshPlacement::kReplicate;
    if (cuts && !ascends_along(d, ranks, known->sizes)) throw order_error();
  }
}

void ItemShardings::take_boxes(PickleValue data, ItemSharding& out) const {
  const auto offsets = shapes(tree_.find(data, "global_offsets"), "global_offsets");
  const auto local = shapes(tree_.find(data, "local_offsets"), "local_offsets");
  const auto sizes = shapes(tree_.find(data, "local_sizes"), "local_sizes");
  if (offsets.size() != local.size() || offsets.size() != sizes.size()) {
    refuse_sharding("has lists of its boxes of different lengths");
  }
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::size_t dimensions = out.full_shape.size();
    if (offsets[i].size() != dimensions || local[i].size() != dimensions ||
        sizes[i].size() != dimensions) {
      refuse_sharding("has a box of it with another number of dimensions");
    }
    if (!fits(offsets[i], sizes[i], out.full_shape)) {
      refuse_sharding("has a box of " + to_string(sizes[i]) + " at " + to_string(offsets[i]) +
                      ", outside of its full shape " + to_string(out.full_shape));
    }
    out.boxes.push_back({offsets[i], local[i], sizes[i]});
  }
}

ItemSharding ItemShardings::sharding(PickleValue value) {
  const PickleValue type = tree_.find(value, "type");
  const std::string_view name = tree_.text(type).value_or(std::string_view());
  if (name != kDTensorType && name != kBoxesType) {
    throw Error(ErrorKind::kUnsupported, std::string(kItemTable) + " describes it as '" +
                                             text_of(tree_, type) +
                                             "', which does not say where its parts lie");
  }
  const PickleValue data = tree_.find(value, "data");
  ItemSharding out;
  out.full_shape = shape(tree_.find(data, "global_shape"), "global_shape");
  const PickleValue dtype = tree_.find(data, "dtype");
  const auto known = pickle::dtype_from_text(tree_.text(dtype).value_or(std::string_view()));
  if (!known) {
    throw Error(ErrorKind::kUnsupported, std::string(kItemTable) + " states the type '" +
                                             text_of(tree_, dtype) + "', which is not known");
  }
  out.dtype = *known;
  if (name == kDTensorType) {
    take_mesh(data, out);
  } else {
    take_boxes(data, out);
  }
  return out;
}

ItemGroup ItemShardings::group(PickleValue value) {
  if (!value.is(PickleKind::kDict)) refuse_sharding("does not state its sharding");
  ItemGroup out;
  out.sharding = sharding(tree_.find(value, "sharding_metadata"));
  Numbers ranks = numbers(tree_.find(value, "ranks"), "ranks");
  std::sort(ranks.begin(), ranks.end());
  if (ranks.empty()) refuse_sharding("has a sharding of it for no rank");
  if (out.sharding.mesh) {
    const auto outside = std::find_if(ranks.begin(), ranks.end(), [&](std::int64_t rank) {
      return !out.sharding.mesh->places.contains(rank);
    });
    if (outside != ranks.end()) {
      refuse_sharding("states that rank " + std::to_string(*outside) +
                      " has a part of it, which is not in its mesh_data");
    }
  }
  auto& known = ranks_[ranks];
  if (!known) known = std::make_shared<const Numbers>(std::move(ranks));
  out.ranks = known;
  return out;
}

}  // namespace reshardfs
