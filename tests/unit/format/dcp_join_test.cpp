// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_join.h"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

struct Saved {
  Shape offsets;
  Shape sizes;
  ByteRange item;
};

/// A table with one tensor "w" [4, 6], in the file of one rank.
DcpTable table_of(int rank, const std::vector<Saved>& boxes, DType dtype = DType::kFloat32,
                  Shape shape = {4, 6}) {
  DcpTable table;
  table.files.push_back("__" + std::to_string(rank) + "_0.distcp");
  DcpTensor tensor{"w", dtype, std::move(shape), 0, boxes.size(), 0};
  table.tensors.push_back(std::move(tensor));
  for (const Saved& box : boxes) {
    table.places.push_back({0, box.item});
    table.bounds.insert(table.bounds.end(), box.offsets.begin(), box.offsets.end());
    table.bounds.insert(table.bounds.end(), box.sizes.begin(), box.sizes.end());
  }
  return table;
}

DcpTable joined(std::vector<DcpTable> tables) {
  DcpJoin join;
  for (DcpTable& table : tables) join.add(std::move(table));
  return join.finish();
}

std::string reason_of(const DcpTable& table) {
  EXPECT_TRUE(table.tensors.empty());
  return table.refused.size() == 1 ? table.refused.front().reason : "";
}

TEST(DcpJoin, PutsTheBoxesOfAllRanksTogether) {
  const DcpTable table =
      joined({table_of(0, {{{0, 0}, {1, 6}, {7, 3}}}),
              table_of(1, {{{1, 0}, {3, 2}, {0, 5}}, {{1, 2}, {3, 4}, {5, 9}}})});
  ASSERT_EQ(table.tensors.size(), 1U);
  const DcpTensor& tensor = table.tensors.front();
  ASSERT_EQ(tensor.boxes, 3U);
  EXPECT_EQ(table.files[table.places[0].file], "__0_0.distcp");
  EXPECT_EQ(table.files[table.places[2].file], "__1_0.distcp");
  EXPECT_EQ(table.places[2].item, ByteRange(5, 9));
  const auto bounds = table.box_bounds(tensor, 2);
  EXPECT_EQ(Shape(bounds.begin(), bounds.end()), (Shape{1, 2, 3, 4}));
}

TEST(DcpJoin, EqualBoxesAreReplicasInTheOrderOfTheRanks) {
  const Saved whole{{0, 0}, {4, 6}, {3, 3}};
  const DcpTable table = joined({table_of(0, {whole}), table_of(1, {whole})});
  ASSERT_EQ(table.tensors.size(), 1U);
  EXPECT_EQ(table.tensors.front().boxes, 2U);
  EXPECT_EQ(table.files[table.places[0].file], "__0_0.distcp");
}

TEST(DcpJoin, RefusesWhatDoesNotFitTogether) {
  const Saved upper{{0, 0}, {2, 6}, {0, 1}};
  const Saved lower{{2, 0}, {2, 6}, {0, 1}};
  EXPECT_EQ(reason_of(joined({table_of(0, {upper}), table_of(1, {upper})})),
            "its chunks have 12 of its 24 elements");
  EXPECT_EQ(reason_of(joined({table_of(0, {upper}), table_of(1, {{{1, 0}, {2, 6}, {0, 1}}})})),
            "its chunks overlap");
  EXPECT_NE(reason_of(joined({table_of(0, {upper}), table_of(1, {lower}, DType::kFloat16)}))
                .find("different types or sizes"),
            std::string::npos);
  EXPECT_NE(reason_of(joined({table_of(0, {upper}), table_of(1, {lower}, DType::kFloat32, {4, 7})}))
                .find("different types or sizes"),
            std::string::npos);
  DcpTable object = table_of(1, {});
  object.tensors.clear();
  object.byte_items.push_back({"w", 5, {}});
  EXPECT_NE(reason_of(joined({table_of(0, {upper, lower}), object})).find("another object"),
            std::string::npos);
  DcpTable refusing = table_of(1, {});
  refusing.tensors.clear();
  refusing.refused.push_back({"w", "it is complex"});
  EXPECT_EQ(reason_of(joined({table_of(0, {upper, lower}), refusing})), "it is complex");
}

TEST(DcpJoin, RefusesTablesOfTwoFrameworks) {
  DcpJoin join;
  join.add(table_of(0, {}));
  DcpTable other = table_of(1, {});
  other.by_name = true;
  test::expect_error(ErrorKind::kBadInput, {"another framework"}, [&] { join.add(other); });
}

}  // namespace
}  // namespace reshardfs
