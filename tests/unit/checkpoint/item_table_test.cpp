// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/items/item_table.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "checkpoint/items/item_boxes.h"
#include "support/errors.h"
#include "unit/format/pickle_samples.h"

namespace reshardfs::item_table_tests {
namespace {

using test::expect_error;
namespace p = test::pickled;

std::string placement(const std::string& type, std::int64_t dim, std::int64_t factor = 0) {
  p::Pairs fields{{"type", p::text(type)}, {"dim", p::number(dim)}};
  if (factor > 0) fields.emplace_back("split_factor", p::number(factor));
  return p::named(fields);
}

/// A GROUP of all ranks of a mesh.
std::string group(const p::Numbers& shape, const p::Numbers& mesh, const p::Numbers& ranks,
                  const p::Values& placements, const std::string& dtype = "torch.float32") {
  const std::string spec =
      p::named({{"mesh_shape", p::numbers(mesh)}, {"mesh_data", p::numbers(ranks)}});
  const std::string data = p::named({{"global_shape", p::number_list(shape)},
                                     {"dtype", p::text(dtype)},
                                     {"mesh_spec", spec},
                                     {"placements", p::list(placements)}});
  const std::string sharding =
      p::named({{"type", p::text("DTensorShardingMetadata")}, {"data", data}});
  return p::named({{"sharding_metadata", sharding}, {"ranks", p::numbers(ranks)}});
}

/// A table of item "model", of which each rank has a file.
std::string table(const p::Pairs& tensors, std::int64_t ranks,
                  const std::string& version = p::text("2.0")) {
  p::Pairs layouts;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    layouts.emplace_back(p::number(rank), p::kNone);
  }
  const std::string item = p::named(
      {{"nested_path_to_metadata", p::named(tensors)}, {"rank_to_layout_info", p::dict(layouts)}});
  return p::pickle(p::named({{"version", version},
                             {"world_size", p::number(ranks)},
                             {"metadata", p::named({{"model", item}})}}));
}

ItemTensor tensor_of(const std::string& groups, std::int64_t ranks) {
  return read_item_table(table({{R"(["w"])", groups}}, ranks)).items.at(0).tensors.at(0);
}

TEST(ItemTable, NamesArePathsOfKeys) {
  const std::string one = p::list({group({2}, {1}, {0}, {placement("Shard", 0)})});
  const ItemTable read =
      read_item_table(table({{R"(["state","a.b","exp_avg"])", one}, {R"(["list",3])", one}}, 1));
  const auto& tensors = read.items.at(0).tensors;
  EXPECT_EQ(tensors.at(0).name, "state.a.b.exp_avg");
  EXPECT_EQ(tensors.at(1).name, "list.3");
  EXPECT_EQ(read.items.at(0).layouts.at(0).file, "model_0.pt");
}

TEST(ItemTable, APlaceInTheMeshTellsTheBox) {
  const std::string groups = p::list({group(
      {10, 4}, {2, 2}, {0, 1, 2, 3}, {placement("StridedShard", 0, 2), placement("Shard", 0)})});
  const ItemTensor tensor = tensor_of(groups, 4);
  ASSERT_EQ(tensor.problem, "");
  const auto boxes = boxes_of(group_of(tensor, 2)->sharding, 2);
  ASSERT_EQ(boxes.size(), 1U);
  EXPECT_EQ(boxes[0], (ItemBox{{3, 0}, {0, 0}, {2, 4}}));
  EXPECT_EQ(stored_shape(tensor.groups[0].sharding, 3), (Shape{2, 4}));
}

TEST(ItemTable, FindsTheGroupOfARank) {
  const std::string shard = placement("Shard", 0);
  const ItemTensor tensor =
      tensor_of(p::list({group({6}, {2}, {1, 3}, {shard}), group({6}, {2}, {0, 2}, {shard})}), 5);
  ASSERT_EQ(tensor.problem, "");
  EXPECT_EQ(group_of(tensor, 0), &tensor.groups[0]);
  EXPECT_EQ(group_of(tensor, 3), &tensor.groups[1]);
  EXPECT_EQ(group_of(tensor, 4), nullptr);
  EXPECT_EQ(boxes_of(tensor.groups[1].sharding, 3).at(0).offsets, (Shape{3}));
}

TEST(ItemTable, PartsWithoutElementsAreNoBoxes) {
  const ItemTensor tensor =
      tensor_of(p::list({group({1}, {2}, {0, 1}, {placement("Shard", 0)})}), 2);
  EXPECT_EQ(boxes_of(tensor.groups[0].sharding, 0).size(), 1U);
  EXPECT_TRUE(boxes_of(tensor.groups[0].sharding, 1).empty());
}

TEST(ItemTable, GroupsMustAgree) {
  const std::string shard = placement("Shard", 0);
  EXPECT_NE(tensor_of(p::list({group({6}, {1}, {0}, {shard}), group({7}, {1}, {1}, {shard})}), 2)
                .problem.find("two full shapes"),
            std::string::npos);
  EXPECT_NE(
      tensor_of(
          p::list({group({6}, {1}, {0}, {shard}), group({6}, {1}, {1}, {shard}, "torch.int64")}), 2)
          .problem.find("two types"),
      std::string::npos);
}

TEST(ItemTable, RefusesOtherVersionsAndClasses) {
  const std::string one = p::list({group({2}, {1}, {0}, {placement("Shard", 0)})});
  expect_error(ErrorKind::kUnsupported, {"of version '2.1'", "1.0 and 2.0"}, [&] {
    read_item_table(table({{R"(["w"])", one}}, 1, p::text("2.1")));
  });
  expect_error(ErrorKind::kUnsupported, {"of version 2"}, [&] {
    read_item_table(table({{R"(["w"])", one}}, 1, p::number(2)));
  });
  expect_error(ErrorKind::kBadInput, {"offset"}, [&] {
    read_item_table(table({{R"(["w"])", p::new_object(p::global("mylib", "Thing"))}}, 1));
  });
}

TEST(ItemTable, EachPrefixIsRefused) {
  const std::string whole =
      table({{R"(["w"])", p::list({group({2}, {1}, {0}, {placement("Shard", 0)})})}}, 1);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(read_item_table(whole.substr(0, length)), Error) << length;
  }
}

}  // namespace
}  // namespace reshardfs::item_table_tests
