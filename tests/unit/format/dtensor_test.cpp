// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dtensor.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "dtensor_samples.h"
#include "format/torch/pickle_globals.h"
#include "format/torch/torch_save.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::dtensor_tests {
namespace {

using test::expect_error;
using test::MemorySource;
namespace p = test::pickled;
using p::Mesh;
using namespace std::string_literals;

const std::string kLocal = p::float_tensor("0", {1});

std::string of_26(const p::Numbers& shape, const Mesh& mesh, const p::Values& placements) {
  return p::dtensor(shape, kLocal, p::spec(p::mesh_26(mesh), placements));
}
std::string of_214(const p::Numbers& shape, const Mesh& mesh, const p::Values& placements) {
  return p::dtensor(shape, kLocal, p::spec(p::mesh_214(mesh), placements));
}

DTensorPlace place_of(const std::string& value) {
  const PickleTree tree(p::pickle(value), pickle::kSavedRules);
  EXPECT_TRUE(is_dtensor(tree, tree.root()));
  return read_dtensor(tree, tree.root()).place;
}

void expect_place(const std::string& value, const Shape& offsets, const Shape& sizes,
                  std::int64_t rank) {
  const DTensorPlace place = place_of(value);
  EXPECT_EQ(place.offsets, offsets);
  EXPECT_EQ(place.sizes, sizes);
  EXPECT_EQ(place.rank, rank);
}

/// Of both releases; the place in the mesh is the rank's.
void expect_place(const p::Numbers& shape, const Mesh& mesh, const p::Values& placements,
                  const Shape& offsets, const Shape& sizes) {
  SCOPED_TRACE(mesh.rank);
  expect_place(of_26(shape, mesh, placements), offsets, sizes, mesh.rank);
  expect_place(of_214(shape, mesh, placements), offsets, sizes, mesh.rank);
}

void expect_no_place(const std::string& value, const std::string& words,
                     ErrorKind kind = ErrorKind::kBadInput) {
  SCOPED_TRACE(words);
  expect_error(kind, {"it is a DTensor, ", words}, [&] { place_of(value); });
}

TEST(DTensor, PlacesPartsAsChunksCutThem) {
  // Five rows on three processes: 2, 2, 1; on four: 2, 2, 1 and none.
  expect_place({5, 3}, {{3}, {0}, {}, 0}, {p::shard(0)}, {0, 0}, {2, 3});
  expect_place({5, 3}, {{3}, {1}, {}, 1}, {p::shard(0)}, {2, 0}, {2, 3});
  expect_place({5, 3}, {{3}, {2}, {}, 2}, {p::shard(0)}, {4, 0}, {1, 3});
  expect_place({5, 3}, {{4}, {3}, {}, 3}, {p::shard(0)}, {5, 0}, {0, 3});
  expect_place({5, 3}, {{3}, {1}, {}, 1}, {p::shard(1)}, {0, 1}, {5, 1});
  expect_place({0, 3}, {{3}, {1}, {}, 1}, {p::shard(0)}, {0, 0}, {0, 3});
}

TEST(DTensor, KeepsReplicasWhole) {
  expect_place({5, 3}, {{3}, {2}, {}, 2}, {p::replicate()}, {0, 0}, {5, 3});
  expect_place({}, {{3}, {2}, {}, 2}, {p::replicate()}, {}, {});
  const std::string of_later = p::build(p::placement("Replicate"), "}");
  expect_place({5, 3}, {{3}, {2}, {}, 2}, {of_later}, {0, 0}, {5, 3});
}

TEST(DTensor, CutsByEachMeshDimensionInTurn) {
  // Five rows by 2 and 2: 3 + 2, then 2 + 1 and 1 + 1.
  const p::Values both{p::shard(0), p::shard(0)};
  expect_place({5}, {{2, 2}, {0, 0}, {}, 0}, both, {0}, {2});
  expect_place({5}, {{2, 2}, {0, 1}, {}, 1}, both, {2}, {1});
  expect_place({5}, {{2, 2}, {1, 0}, {}, 2}, both, {3}, {1});
  expect_place({5}, {{2, 2}, {1, 1}, {}, 3}, both, {4}, {1});
  expect_place({4, 6}, {{2, 3}, {1, 2}, {}, 5}, {p::shard(1), p::shard(0)}, {4, 3}, {0, 3});
  expect_place({4, 6}, {{2, 3}, {1, 1}, {}, 4}, {p::replicate(), p::shard(1)}, {0, 2}, {4, 2});
  expect_place({4, 6}, {{2, 1}, {1, 0}, {}, 1}, {p::shard(0), p::shard(1)}, {2, 0}, {2, 6});
}

TEST(DTensor, ReadsTheDimensionAsArgumentToo) {
  const std::string argument = p::new_object(
      p::global("torch.distributed.tensor.placement_types", "Shard"), p::numbers({1}));
  expect_place(of_26({4, 4}, {{2}, {1}, {}, 1}, {argument}), {0, 2}, {4, 2}, 1);
}

TEST(DTensor, ReadsSubmeshes) {
  // mesh["fsdp"] of a mesh (2, 2), as rank 3 has it.
  expect_place(of_26({4}, {{2}, {1}, {2, 3}, 0}, {p::shard(0)}), {2}, {2}, 3);
  expect_place(of_214({4}, {{2}, {1}, {0, 1, 2, 3}, 3}, {p::shard(0)}), {2}, {2}, 3);
  // The other dimension: ranks 1 and 3.
  expect_place(of_26({4}, {{2}, {1}, {1, 3}, 0}, {p::shard(0)}), {2}, {2}, 3);
}

TEST(DTensor, RefusesMeshesWhoseRanksDoNotAscend) {
  expect_no_place(of_26({4}, {{2}, {0}, {1, 0}, 1}, {p::shard(0)}), "ranks do not ascend",
                  ErrorKind::kUnsupported);
  expect_no_place(of_26({4}, {{2, 2}, {0, 0}, {0, 3, 2, 1}, 0}, {p::shard(0), p::replicate()}),
                  "ranks do not ascend", ErrorKind::kUnsupported);
  expect_no_place(of_214({4}, {{2}, {0}, {1, 0}, 1}, {p::shard(0)}), "ranks do not ascend",
                  ErrorKind::kUnsupported);
  // Columns and rows ascend, which is all that counts.
  expect_place(of_26({4}, {{2, 2}, {0, 1}, {0, 2, 1, 3}, 0}, {p::shard(0), p::replicate()}), {0},
               {2}, 2);
}

TEST(DTensor, RefusesOtherPlacements) {
  const Mesh mesh{{2}, {0}, {}, 0};
  for (const auto& [name, state] : std::vector<std::pair<std::string, p::Pairs>>{
           {"Partial", {{"reduce_op", p::text("sum")}}}, {"Ragged", {}}}) {
    expect_no_place(of_26({4}, mesh, {p::placement(name, state)}), "placed as " + name,
                    ErrorKind::kUnsupported);
  }
  expect_no_place(of_26({4}, mesh, {p::kNone}), "placed as something else",
                  ErrorKind::kUnsupported);
  expect_no_place(of_26({4}, mesh, {p::shard(1)}), "along a dimension that it does not have");
  expect_no_place(of_26({4}, mesh, {p::shard(-1)}), "along a dimension that it does not have");
  expect_no_place(of_26({4}, mesh, {p::placement("Shard")}), "that it does not have");
  expect_no_place(of_26({4}, mesh, {}), "placements do not fit its mesh");
  expect_no_place(of_26({4}, mesh, {p::shard(0), p::shard(0)}), "placements do not fit its mesh");
}

std::string strided(std::int64_t dimension, std::int64_t parts) {
  return p::placement("_StridedShard",
                      {{"dim", p::number(dimension)}, {"split_factor", p::number(parts)}});
}

// torch.distributed.tensor.placement_types._StridedShard: FSDP2 cuts what tensor parallelism has
// left, though its dimension of the mesh comes first.
TEST(DTensor, CutsStridedShardsBehindLaterDimensions) {
  const auto at = [](std::int64_t dp, std::int64_t tp) {
    return of_214({10}, {{2, 2}, {dp, tp}, {0, 1, 2, 3}, 2 * dp + tp},
                  {strided(0, 2), p::shard(0)});
  };
  expect_place(at(0, 0), {0}, {3}, 0);
  expect_place(at(1, 0), {3}, {2}, 2);
  expect_place(at(0, 1), {5}, {3}, 1);
  expect_place(at(1, 1), {8}, {2}, 3);
  // Replicated over the mesh dimension between, and another dimension of the tensor.
  expect_place(of_214({8, 6}, {{2, 2, 2}, {1, 0, 1}, {0, 1, 2, 3, 4, 5, 6, 7}, 5},
                      {strided(0, 2), p::shard(1), p::shard(0)}),
               {6, 0}, {2, 3}, 5);
  // Two of them: the inner one is the outer one's later dimension.
  expect_place(of_214({16}, {{2, 2, 2}, {1, 0, 1}, {0, 1, 2, 3, 4, 5, 6, 7}, 5},
                      {strided(0, 4), strided(0, 2), p::shard(0)}),
               {10}, {2}, 5);
  expect_place(of_214({4}, {{2}, {1}, {0, 1}, 1}, {strided(0, 1)}), {2}, {2}, 1);
}

TEST(DTensor, RefusesStridedShardsThatDoNotFit) {
  const Mesh mesh{{2, 2}, {0, 0}, {}, 0};
  for (const auto& placements :
       std::vector<std::vector<std::string>>{{strided(0, 3), p::shard(0)},
                                             {strided(0, 2), p::shard(1)},
                                             {p::shard(0), strided(0, 2)}}) {
    expect_no_place(of_26({4, 4}, mesh, placements), "a strided shard with split_factor",
                    ErrorKind::kUnsupported);
  }
  expect_no_place(
      of_26({4}, mesh, {p::placement("_StridedShard", {{"dim", p::number(0)}}), p::shard(0)}),
      "without its split_factor");
}

TEST(DTensor, FollowsThePlainOrderOnly) {
  const auto ordered = [](const p::Numbers& order) {
    const std::string entry =
        p::new_object(p::global("torch.distributed.tensor._dtensor_spec", "ShardOrderEntry"),
                      p::tuple({p::number(0), p::numbers(order)}));
    return p::dtensor({5}, kLocal,
                      p::spec(p::mesh_214({{2, 2}, {1, 0}, {}, 2}), {p::shard(0), p::shard(0)},
                              {{"shard_order", p::tuple({entry})}}));
  };
  expect_place(ordered({0, 1}), {3}, {1}, 2);
  expect_no_place(ordered({1, 0}), "cut in another order", ErrorKind::kUnsupported);
  expect_no_place(ordered({}), "cut in another order", ErrorKind::kUnsupported);
}

TEST(DTensor, RefusesMeshesThatContradict) {
  const p::Values cut{p::shard(0)};
  expect_no_place(of_26({4}, {{2}, {2}, {}, 0}, cut), "outside of its mesh");
  expect_no_place(of_214({4}, {{2}, {-1}, {}, 0}, cut), "outside of its mesh");
  expect_no_place(of_26({4}, {{0}, {0}, {0}, 0}, cut), "outside of its mesh");
  expect_no_place(of_26({4}, {{2}, {0, 0}, {}, 0}, cut), "where in the mesh its process is");
  expect_no_place(of_26({4}, {{2}, {}, {}, 0}, cut), "where in the mesh its process is");
  expect_no_place(of_26({4}, {{2}, {0}, {0, 1, 2}, 0}, cut), "the ranks of its mesh");
  const auto with_mesh = [&](const std::string& mesh) {
    return p::dtensor({4}, kLocal, p::spec(mesh, cut));
  };
  expect_no_place(with_mesh(p::kNone), "no DeviceMesh that can be understood");
  expect_no_place(with_mesh(p::mesh_object({})), "where in the mesh its process is");
  expect_no_place(p::dtensor({4}, kLocal, p::kNone), "no DTensorSpec that can be understood");
}

TEST(DTensor, RefusesWhatStatesNoPart) {
  const std::string type = p::global("torch.distributed.tensor", "DTensor");
  expect_no_place(p::from_type(type, {4}, p::kNone), "does not state its part");
  expect_no_place(p::from_type(type, {4}, p::tuple({p::kNone, p::kNone})),
                  "does not state its part");
  const std::string maker = p::global("torch._tensor", "_rebuild_from_type_v2");
  expect_no_place(p::reduce(maker, p::tuple({"N", type, "N", "}"})), "its full shape");
  expect_no_place(p::reduce(maker, p::tuple({"N", type, "N"})), "does not state its part");
  const std::string no_local =
      p::named({{"_spec", p::spec(p::mesh_26({{2}, {0}, {}, 0}), {p::shard(0)})}});
  expect_no_place(p::from_type(type, {4}, no_local), "does not state its part");
}

TEST(DTensor, TakesMeshesOfAnySizeWithoutOverflow) {
  const Mesh huge{{INT64_MAX}, {INT64_MAX - 1}, {0}, 7};
  expect_place(of_214({5}, huge, {p::shard(0)}), {5}, {0}, 7);
  const std::int64_t many = 1LL << 40;
  const Mesh square{{many, many}, {many - 1, many - 1}, {0}, 0};
  expect_error(ErrorKind::kBadInput, {"the number of processes of a mesh exceeds the range"}, [&] {
    place_of(of_26({5}, square, {p::shard(0), p::shard(0)}));
  });
  expect_no_place(
      of_26({5}, {p::Numbers(65, 1), p::Numbers(65, 0), {0}, 0}, p::Values(65, p::replicate())),
      "where in the mesh its process is");
  expect_place(
      of_26({5}, {p::Numbers(64, 1), p::Numbers(64, 0), {0}, 0}, p::Values(64, p::shard(0))), {0},
      {5}, 0);
}

TEST(ShardedTensor, StatesThePlaceOfItsPart) {
  const std::string part = p::shard_of(kLocal, {2, 0}, {1, 3}, 1);
  expect_place(p::sharded_tensor({4, 3}, {part}), {2, 0}, {1, 3}, 1);
  EXPECT_EQ(place_of(p::sharded_tensor({4, 3}, {part})).full_shape, (Shape{4, 3}));
  const PickleTree none(p::pickle(p::sharded_tensor({4, 3}, {})), pickle::kSavedRules);
  EXPECT_TRUE(read_dtensor(none, none.root()).local.is(PickleKind::kUnset));
  expect_no_place(p::sharded_tensor({4, 3}, {part, part}), "several parts",
                  ErrorKind::kUnsupported);
  expect_no_place(p::sharded_tensor({4}, {part}), "other dimensions than itself");
  expect_no_place(p::sharded_tensor({4, 3}, {p::kNone}), "does not state its part");
}

TEST(ShardedTensor, HasItsPartInside) {
  const auto part = [](const p::Numbers& offsets, const p::Numbers& sizes) {
    return p::sharded_tensor({4, 3}, {p::shard_of(kLocal, offsets, sizes, 0)});
  };
  expect_place(part({4, 0}, {0, 3}), {4, 0}, {0, 3}, 0);
  expect_no_place(part({4, 0}, {1, 3}), "outside of it");
  expect_no_place(part({0, 1}, {4, 3}), "outside of it");
  expect_no_place(part({-1, 0}, {2, 3}), "outside of it");
  expect_no_place(part({1, 0}, {-1, 3}), "outside of it");
  expect_no_place(part({INT64_MAX, 0}, {INT64_MAX, 3}), "outside of it");
}

TEST(DTensor, IsKnownByItsClass) {
  const auto is = [](const std::string& value) {
    const PickleTree tree(p::pickle(value), pickle::kSavedRules);
    return is_dtensor(tree, tree.root());
  };
  const std::string old = p::global("torch.distributed._tensor.api", "DTensor");
  EXPECT_TRUE(is(p::from_type(old, {4}, p::kNone)));
  EXPECT_FALSE(is(p::from_type(p::global("mylib", "DTensor"), {4}, p::kNone)));
  EXPECT_FALSE(is(p::from_type(p::global("torch", "Tensor"), {4}, p::kNone)));
  EXPECT_FALSE(is(kLocal));
  EXPECT_FALSE(is("N"));
}

TorchSave saved_parts(const std::string& value, DTensors dtensors) {
  const MemorySource source(p::zip_of(value, {{"0", std::string(24, 's')}}), "rank.pt");
  return read_torch_save(TorchArchive(source), dtensors);
}

TEST(DTensorsInFiles, ArePlacedIfAsked) {
  const std::string local = p::float_tensor("0", {2, 3});
  const Mesh second{{2}, {1}, {}, 1};
  const std::string value =
      p::named({{"plain", local},
                {"part", p::dtensor({4, 3}, local, p::spec(p::mesh_26(second), {p::shard(0)}))},
                {"other", p::dtensor({5, 3}, local, p::spec(p::mesh_26(second), {p::replicate()}))},
                {"empty", p::sharded_tensor({4, 3}, {})}});
  const TorchSave placed = saved_parts(value, DTensors::kPlaced);
  ASSERT_EQ(placed.tensors.size(), 2U);
  EXPECT_EQ(placed.tensors[1].name, "part");
  ASSERT_EQ(placed.places.size(), 1U);
  EXPECT_EQ(placed.places.at(1).full_shape, (Shape{4, 3}));
  EXPECT_EQ(placed.places.at(1).offsets, (Shape{2, 0}));
  ASSERT_EQ(placed.refused.size(), 1U);
  EXPECT_EQ(placed.refused[0].reason,
            "it is a DTensor whose part should be [5, 3] by its placements, but is [2, 3]");

  const TorchSave refused = saved_parts(value, DTensors::kRefused);
  EXPECT_EQ(refused.tensors.size(), 1U);
  ASSERT_EQ(refused.refused.size(), 3U);
  EXPECT_NE(refused.refused[0].reason.find("one process's part of a DTensor"), std::string::npos);
}

TEST(DTensorsInFiles, KeepTheirPlacesWhenTwinsGo) {
  const std::string local = p::float_tensor("0", {2, 3});
  const std::string part =
      p::dtensor({4, 3}, local, p::spec(p::mesh_214({{2}, {1}, {}, 1}), {p::shard(0)}));
  const TorchSave saved =
      saved_parts(p::dict({{p::text("1"), part}, {p::number(1), local}, {p::text("w"), part}}),
                  DTensors::kPlaced);
  ASSERT_EQ(saved.tensors.size(), 1U);
  EXPECT_EQ(saved.tensors[0].name, "w");
  ASSERT_EQ(saved.places.size(), 1U);
  EXPECT_EQ(saved.places.at(0).offsets, (Shape{2, 0}));
}

}  // namespace
}  // namespace reshardfs::dtensor_tests
