// SPDX-License-Identifier: Apache-2.0
#include "format/file_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "format/index/name_orders.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

TensorEntry named(const std::string& name) {
  TensorEntry entry;
  entry.name = name;
  return entry;
}

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TensorEntry shaped(const std::string& name, const Shape& shape) {
  TensorEntry entry = named(name);
  entry.shape = shape;
  return entry;
}

/// @param list the number of an entry, and its offsets.
BoxOffsets pieces_at(const std::vector<std::pair<std::size_t, Shape>>& list) {
  BoxOffsets pieces;
  for (const auto& [entry, offsets] : list) pieces.add(entry, offsets);
  return pieces;
}

TEST(FileIndex, KeepsTheOrderAndFindsEachName) {
  const FileIndex index({named("b"), named("a"), named("c")});
  EXPECT_EQ(index.entries()[0].name, "b");
  for (const std::string name : {"a", "b", "c"}) {
    ASSERT_NE(index.find(name), nullptr);
    EXPECT_EQ(index.find(name)->name, name);
  }
  EXPECT_EQ(index.find("bb"), nullptr);
  EXPECT_EQ(index.find("d"), nullptr);
  EXPECT_EQ(FileIndex({}).find("a"), nullptr);
}

TEST(FileIndex, FindsInACopy) {
  const FileIndex original({named("b"), named("a")});
  const FileIndex copy = original;
  EXPECT_EQ(copy.find("a"), &copy.entries()[1]);
}

TEST(FileIndex, RefusesARepeatedName) {
  test::expect_error(ErrorKind::kBadInput, {"'a'", "twice"}, [] {
    FileIndex({named("a"), named("b"), named("a")});
  });
}

TEST(FileIndex, FindsAllPiecesOfATensor) {
  const FileIndex index(
      {shaped("b", {2, 3}), named("a"), shaped("b", {2, 1}), named("c"), shaped("b", {2, 3})}, {},
      pieces_at({{0, {4, 0}}, {2, {4, 3}}, {4, {0, 0}}}));
  EXPECT_TRUE(index.has_boxes());
  EXPECT_THAT(index.find_all("b"), ElementsAre(0U, 2U, 4U));
  EXPECT_THAT(index.find_all("a"), ElementsAre(1U));
  EXPECT_THAT(index.find_all("aa"), IsEmpty());
  EXPECT_THAT(index.find_all("d"), IsEmpty());
  EXPECT_EQ(index.find("b"), &index.entries()[0]);
  EXPECT_EQ(index.find("c"), &index.entries()[3]);
  EXPECT_THAT(*index.box_offsets(index.entries()[2]), ElementsAre(4, 3));
  EXPECT_THAT(*index.box_offsets(index.entries()[4]), ElementsAre(0, 0));
  EXPECT_FALSE(index.box_offsets(index.entries()[1]));
  EXPECT_FALSE(index.box_offsets(index.entries()[3]));
}

TEST(FileIndex, KnowsAScalarPieceFromNone) {
  const FileIndex index({named("s"), named("t")}, {}, pieces_at({{1, {}}}));
  EXPECT_FALSE(index.box_offsets(index.entries()[0]));
  ASSERT_TRUE(index.box_offsets(index.entries()[1]));
  EXPECT_THAT(*index.box_offsets(index.entries()[1]), IsEmpty());
}

TEST(FileIndex, HasPiecesOfOtherShapesAtOnePlace) {
  // One without elements may stand where another one does.
  const FileIndex index({shaped("a", {0, 3}), shaped("a", {2, 3})}, {},
                        pieces_at({{0, {0, 0}}, {1, {0, 0}}}));
  EXPECT_EQ(index.find_all("a").size(), 2U);
}

TEST(FileIndex, RefusesEqualPieces) {
  const std::vector<std::uint64_t> offsets{10, 20, 30};
  test::expect_error(ErrorKind::kBadInput, {"'a'", "twice", "offset 10", "offset 30"}, [&] {
    FileIndex({shaped("a", {2}), shaped("a", {2}), shaped("a", {2})}, {nullptr, offsets},
              pieces_at({{0, {0}}, {1, {2}}, {2, {0}}}));
  });
}

TEST(FileIndex, RefusesARepeatedNameThatIsNotAPieceEachTime) {
  for (const std::size_t piece : {0U, 1U}) {
    test::expect_error(ErrorKind::kBadInput, {"'a'", "twice"}, [&] {
      FileIndex({shaped("a", {2}), shaped("a", {2})}, {}, pieces_at({{piece, {0}}}));
    });
  }
}

TEST(FileIndex, RefusesARepeatedNameLikeAFileOfPieces) {
  NameOrders orders;
  orders.add(std::make_shared<const FileIndex>(std::vector{shaped("a", {2}), shaped("a", {2})},
                                               IndexHints{}, pieces_at({{0, {0}}, {1, {2}}})));
  test::expect_error(ErrorKind::kBadInput, {"'a'", "twice"}, [&] {
    FileIndex({shaped("a", {2}), shaped("a", {2})}, {&orders, {}});
  });
  const FileIndex same({shaped("a", {2}), shaped("a", {2})}, {&orders, {}},
                       pieces_at({{0, {4}}, {1, {6}}}));
  EXPECT_EQ(same.find_all("a").size(), 2U);
}

TEST(FileIndex, RefusesOffsetsThatDoNotFitTheirPiece) {
  for (const Shape& offsets : {Shape{}, Shape{0, 0}, Shape{-1}}) {
    test::expect_error(ErrorKind::kBadInput, {"'a'", "[2]", to_string(offsets)}, [&] {
      FileIndex({shaped("a", {2})}, {}, pieces_at({{0, offsets}}));
    });
  }
}

}  // namespace
}  // namespace reshardfs
