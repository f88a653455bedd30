// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/iteration/iteration_catalogue.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "layout/slicing.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::ranks;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using testing::SizeIs;

using Ints = std::vector<std::int64_t>;

/// A number of digits as the writer pads it.
std::string padded(std::int64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(7 - digits.size(), '0') + digits;
}

RecordedLayout layout_on(std::vector<Rank> places, Ints device_matrix, TensorMap map) {
  RecordedLayout layout;
  layout.device_matrix = std::move(device_matrix);
  layout.tensor_map = std::move(map);
  layout.ranks = std::move(places);
  return layout;
}

/// Rows of two ranks, with a replica each.
RecordedLayout rows_on(std::vector<Rank> places) {
  return layout_on(std::move(places), {2, 2}, {{0}, {}});
}

class IterationCatalogueTest : public testing::Test {
 protected:
  static constexpr std::int64_t kFiles = 12;

  /// By default file i is rank i's.
  IterationCatalogueTest() : files_(kFiles) {
    for (std::int64_t i = 0; i < kFiles; ++i) {
      RankFile& file = files_[static_cast<std::size_t>(i)];
      file.rank = Rank(i);
      file.part = i;
      name_file(i, "model-" + padded(i) + "-" + padded(kFiles) + ".safetensors");
    }
  }

  void name_file(std::int64_t number, const std::string& name) {
    const auto i = static_cast<std::size_t>(number);
    metadata_.files.resize(files_.size());
    metadata_.files[i] = name;
    files_[i].path = "iteration_00000120/" + name;
  }

  /// @param stored for each number of a slice the ranks that have it, each in its file.
  void add(const std::string& name, Shape shape, std::optional<RecordedLayout> layout,
           const std::map<std::uint64_t, Ints>& stored) {
    std::vector<RecordedSlice> slices;
    for (const auto& [number, with] : stored) {
      std::vector<StoredShard> shards;
      for (const std::int64_t rank : with) {
        shards.push_back({static_cast<std::uint32_t>(rank), Rank(rank)});
      }
      slices.push_back({number, std::make_shared<const std::vector<StoredShard>>(shards)});
    }
    add_slices(name, std::move(shape), std::move(layout), slices);
  }
  void add_slices(const std::string& name, Shape shape, std::optional<RecordedLayout> layout,
                  const std::vector<RecordedSlice>& slices) {
    RecordedParameter parameter;
    parameter.name = name;
    parameter.global_shape = std::move(shape);
    if (layout) parameter.layout = std::make_shared<const RecordedLayout>(std::move(*layout));
    parameter.slices = std::make_shared<const std::vector<RecordedSlice>>(slices);
    metadata_.parameters.push_back(std::move(parameter));
  }
  static RecordedSlice slice_in(std::uint64_t number, std::uint32_t file, std::int64_t rank) {
    return {number, std::make_shared<const std::vector<StoredShard>>(
                        std::vector{StoredShard{file, Rank(rank)}})};
  }

  const IterationCatalogue& catalogue() {
    return catalogues_.emplace_back(std::make_shared<const IterationMetadata>(metadata_));
  }

  /// The files of these ranks, with an entry of one shape.
  Holders holders(const Ints& of_ranks, Shape shape) {
    TensorEntry& entry = entries_.emplace_back();
    entry.shape = std::move(shape);
    Holders out;
    for (const std::int64_t rank : of_ranks) {
      out.add({&files_[static_cast<std::size_t>(rank)], 1, &entry});
    }
    return out;
  }

  /// The one placement of parameter w.
  SlicePlacement place(const Ints& of_ranks, const Shape& shape) {
    auto found = catalogue().placements("w", holders(of_ranks, shape));
    if (found.size() != 1) throw std::runtime_error("not one placement");
    return std::move(found.front());
  }
  void expect_refused(ErrorKind kind, std::initializer_list<std::string> words,
                      const Ints& of_ranks, const Shape& shape) {
    expect_error(kind, words, [&] { place(of_ranks, shape); });
  }

  /// Which part of dimension 0 each of the files has.
  static std::map<std::int64_t, std::int64_t> rows_of(const SlicePlacement& placement) {
    const Slicing slicing(*placement.layout, placement.full_shape.value());
    std::map<std::int64_t, std::int64_t> out;
    for (const Holding& holding : placement.holders) {
      const Rank rank = holding.file->rank;
      out[rank.number()] = slicing.parts_of(placement.devices.place_of(rank).value())[0];
    }
    return out;
  }
  using Rows = std::map<std::int64_t, std::int64_t>;

  IterationMetadata metadata_;
  std::vector<RankFile> files_;
  std::deque<TensorEntry> entries_;
  std::deque<IterationCatalogue> catalogues_;
};

TEST_F(IterationCatalogueTest, PlacesFilesByTheirRanks) {
  add("w", {8, 4}, rows_on(ranks({4, 5, 6, 7})), {{0, {4, 6}}, {1, {5, 7}}});
  const SlicePlacement w = place({4, 5, 6, 7}, {4, 4});
  EXPECT_THAT(w.layout->device_matrix, ElementsAre(2, 2));
  EXPECT_EQ(w.layout->tensor_map, (TensorMap{{0}, {}}));
  EXPECT_EQ(w.layout->optimizer_shard_size, 0);
  EXPECT_THAT(w.full_shape, Optional(Shape{8, 4}));
  EXPECT_EQ(w.devices, DeviceRanks::one_group(ranks({4, 5, 6, 7})));
  EXPECT_EQ(rows_of(w), (Rows{{4, 0}, {5, 1}, {6, 0}, {7, 1}}));
}

TEST_F(IterationCatalogueTest, KnowsTheLayoutWithoutAnyFile) {
  add("w", {8, 4}, rows_on(ranks({0, 1, 2, 3})), {{0, {0}}, {1, {1}}});
  const IterationCatalogue& known = catalogue();
  EXPECT_TRUE(known.states_layouts());
  ASSERT_THAT(known.layouts_of("w"), SizeIs(1));
  EXPECT_EQ(known.layouts_of("w").front()->tensor_map, (TensorMap{{0}, {}}));
  EXPECT_THAT(known.layouts_of("v"), IsEmpty());
  EXPECT_THAT(known.placements("v", holders({0}, {4, 4})), IsEmpty());
}

TEST_F(IterationCatalogueTest, SharesOneLayoutAmongParametersThatShareIt) {
  add("w", {8, 4}, rows_on(ranks({0, 1, 2, 3})), {{0, {0}}, {1, {1}}});
  metadata_.parameters.push_back(metadata_.parameters.front());
  metadata_.parameters.back().name = "v";
  metadata_.parameters.back().global_shape = {16, 2};
  const IterationCatalogue& known = catalogue();
  EXPECT_EQ(known.layouts_of("w"), known.layouts_of("v"));
  const auto found = known.placements("v", holders({0, 1}, {8, 2}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found.front().full_shape, Optional(Shape{16, 2}));
}

TEST_F(IterationCatalogueTest, TakesOneDimensionThatSeveralAxesCut) {
  const auto all = ranks({0, 1, 2, 3});
  add("w", {8}, layout_on(all, {2, 2}, {{0, 1}, {}}), {{0, {0}}, {1, {2}}, {2, {1}}, {3, {3}}});
  const SlicePlacement w = place({0, 1, 2, 3}, {2});
  EXPECT_EQ(w.layout->tensor_map, (TensorMap{{0, 1}}));
  EXPECT_EQ(rows_of(w), (Rows{{0, 0}, {1, 2}, {2, 1}, {3, 3}}));
}

TEST_F(IterationCatalogueTest, RefusesALayoutOfOtherDimensions) {
  const auto pair = ranks({0, 1});
  add("w", {8}, layout_on(pair, {2}, {{}, {0}}), {{0, {0}}, {1, {1}}});
  expect_refused(ErrorKind::kBadInput, {"2 dimensions", "[8]"}, {0, 1}, {8});
  metadata_.parameters.clear();
  add("w", {8, 4}, layout_on(pair, {2}, {{0}}), {{0, {0}}, {1, {1}}});
  expect_refused(ErrorKind::kBadInput, {"1 dimension,", "[8, 4]"}, {0, 1}, {4, 4});
}

TEST_F(IterationCatalogueTest, RefusesWhatDoesNotDivide) {
  add("w", {9, 4}, rows_on(ranks({0, 1, 2, 3})), {{0, {0}}, {1, {1}}});
  expect_refused(ErrorKind::kBadInput, {"dimension 0", "9 elements", "2 equal parts"}, {0, 1},
                 {4, 4});
}

TEST_F(IterationCatalogueTest, TakesWhatHasNoLayoutAsWhole) {
  add("w", {8, 4}, std::nullopt, {{0, {2, 5}}});
  const SlicePlacement w = place({2, 3, 5}, {8, 4});
  EXPECT_EQ(w.layout->tensor_map, (TensorMap{{}, {}}));
  EXPECT_EQ(rows_of(w), (Rows{{2, 0}, {5, 0}})) << "rank 3 is not listed";
  EXPECT_THAT(w.devices.place_of(Rank(5)), Optional(1));
  EXPECT_EQ(w.devices.place_of(Rank(3)), std::nullopt);
  expect_refused(ErrorKind::kBadInput, {"names none of the files", "model-0000003-"}, {3}, {8, 4});
}

TEST_F(IterationCatalogueTest, TakesAScalarWithoutALayout) {
  add("w", {}, std::nullopt, {{0, {1}}});
  EXPECT_THAT(place({1}, {}).layout->tensor_map, IsEmpty());
}

TEST_F(IterationCatalogueTest, RefusesASecondSliceOfWhatHasNoLayout) {
  add("w", {8, 4}, std::nullopt, {{0, {0}}, {1, {1}}});
  expect_refused(ErrorKind::kBadInput, {"contradicts itself", "no layout", "number 1"}, {0, 1},
                 {8, 4});
}

TEST_F(IterationCatalogueTest, HasNoFileOfWhatNoneStores) {
  add("w", {8, 4}, std::nullopt, {});
  ASSERT_THAT(catalogue().layouts_of("w"), SizeIs(1));
  expect_refused(ErrorKind::kBadInput, {"names none of the files"}, {0}, {8, 4});
}

/// There the writer counts slices by the rank modulo 4, so that its numbers are not the boxes'.
TEST_F(IterationCatalogueTest, GoesByThePlaceInAnIrregularList) {
  add("w", {8, 4}, rows_on(ranks({0, 2, 1, 3})), {{0, {0, 2}}, {1, {1, 3}}});
  const SlicePlacement w = place({0, 1, 2, 3}, {4, 4});
  EXPECT_EQ(rows_of(w), (Rows{{0, 0}, {1, 0}, {2, 1}, {3, 1}}));
}

TEST_F(IterationCatalogueTest, TakesARankOfAnotherStageModuloARegularList) {
  add("w", {8, 4}, layout_on(ranks({0, 1}), {2}, {{0}, {}}), {{0, {0, 2}}, {1, {1, 3}}});
  EXPECT_EQ(rows_of(place({0, 1, 2, 3}, {4, 4})), (Rows{{0, 0}, {1, 1}, {2, 0}, {3, 1}}));
  EXPECT_EQ(rows_of(place({2, 3}, {4, 4})), (Rows{{2, 0}, {3, 1}}));
}

TEST_F(IterationCatalogueTest, IgnoresARankOutsideOfAnIrregularList) {
  for (const auto& list : {ranks({0, 2}), ranks({1, 2}), ranks({2, 1})}) {
    metadata_.parameters.clear();
    add("w", {8, 4}, layout_on(list, {2}, {{0}, {}}), {{0, {0, 1, 2, 3, 4}}});
    const Rows expected{{list[0].number(), 0}, {list[1].number(), 1}};
    EXPECT_EQ(rows_of(place({0, 1, 2, 3, 4}, {4, 4})), expected);
    expect_refused(ErrorKind::kBadInput, {"names none of the files"}, {3, 4}, {4, 4});
  }
}

TEST_F(IterationCatalogueTest, DropsFilesThatAreNotListed) {
  add("w", {8, 4}, rows_on(ranks({0, 1, 2, 3})), {{0, {0}}, {1, {1, 3}}});
  EXPECT_EQ(rows_of(place({0, 1, 2, 3}, {4, 4})), (Rows{{0, 0}, {1, 1}, {3, 1}}));
  EXPECT_EQ(rows_of(place({2, 3}, {4, 4})), (Rows{{3, 1}}));
  EXPECT_EQ(rows_of(place({1, 2}, {4, 4})), (Rows{{1, 1}}));
  expect_refused(ErrorKind::kBadInput,
                 {"contradicts itself", "names none of the files", "model-0000002-"}, {2}, {4, 4});
}

TEST_F(IterationCatalogueTest, KeepsFilesWithOneEntryTogether) {
  const auto eight = ranks({0, 1, 2, 3, 4, 5, 6, 7});
  add("w", {4}, layout_on(eight, {8}, {{}}), {{0, {0, 1, 2, 4, 5, 7}}});
  const SlicePlacement w = place({0, 1, 2, 3, 4, 5, 6, 7}, {4});
  ASSERT_THAT(w.holders.rows(), SizeIs(3));
  EXPECT_EQ(w.holders.rows()[0].count, 3U);
  EXPECT_EQ(w.holders.rows()[1].first, &files_[4]);
  EXPECT_EQ(w.holders.rows()[1].count, 2U);
  EXPECT_EQ(w.holders.rows()[2].count, 1U);
}

/// Rows on the last of three axes; the optimizer cuts them by the middle one.
TEST_F(IterationCatalogueTest, AddsAnOptimizerCutThatTheMetadataLacks) {
  const auto eight = ranks({0, 1, 2, 3, 4, 5, 6, 7});
  add("w", {16, 4}, layout_on(eight, {2, 2, 2}, {{0}, {}}), {{0, {0, 2, 4, 6}}, {1, {1, 3, 5, 7}}});
  const SlicePlacement cut = place({0, 1, 2, 3, 4, 5, 6, 7}, {4, 4});
  EXPECT_EQ(cut.layout->optimizer_shard_size, 2);
  EXPECT_EQ(rows_of(cut), (Rows{{0, 0}, {1, 2}, {2, 1}, {3, 3}, {4, 0}, {5, 2}, {6, 1}, {7, 3}}));
  EXPECT_EQ(place({0, 1, 2, 3, 4, 5, 6, 7}, {2, 4}).layout->optimizer_shard_size, 4);
  EXPECT_EQ(place({0, 1, 2, 3, 4, 5, 6, 7}, {8, 4}).layout->optimizer_shard_size, 0) << "as stated";
}

TEST_F(IterationCatalogueTest, AddsAnOptimizerCutToWhatIsReplicated) {
  const auto eight = ranks({0, 1, 2, 3, 4, 5, 6, 7});
  add("w", {16}, layout_on(eight, {4, 2}, {{}}), {{0, {0, 1, 2, 3, 4, 5, 6, 7}}});
  const SlicePlacement cut = place({0, 1, 2, 3, 4, 5, 6, 7}, {8});
  EXPECT_EQ(cut.layout->optimizer_shard_size, 2);
  EXPECT_EQ(rows_of(cut), (Rows{{0, 0}, {1, 1}, {2, 0}, {3, 1}, {4, 0}, {5, 1}, {6, 0}, {7, 1}}));
}

TEST_F(IterationCatalogueTest, LeavesTheLayoutToParametersThatAreAsItStates) {
  const auto four = ranks({0, 1, 2, 3});
  add("w", {8}, layout_on(four, {4}, {{}}), {{0, {0, 1, 2, 3}}});
  metadata_.parameters.push_back(metadata_.parameters.front());
  metadata_.parameters.back().name = "adam_m.w";
  const IterationCatalogue& known = catalogue();
  const auto cut = known.placements("adam_m.w", holders({0, 1, 2, 3}, {2}));
  const auto whole = known.placements("w", holders({0, 1, 2, 3}, {8}));
  const auto again = known.placements("adam_m.w", holders({0, 1}, {2}));
  EXPECT_EQ(cut.front().layout->optimizer_shard_size, 4);
  EXPECT_EQ(whole.front().layout->optimizer_shard_size, 0);
  EXPECT_EQ(whole.front().layout, known.layouts_of("adam_m.w").front());
  EXPECT_EQ(again.front().layout, cut.front().layout);
}

TEST_F(IterationCatalogueTest, AddsNoOtherCut) {
  const auto eight = ranks({0, 1, 2, 3, 4, 5, 6, 7});
  // Four replicas of a slice of 24 rows.
  add("w", {48, 4}, layout_on(eight, {2, 2, 2}, {{0}, {}}), {{0, {0, 2, 4, 6}}, {1, {1, 3, 5, 7}}});
  for (const Shape& held : std::vector<Shape>{
           {8, 4}, {3, 4}, {7, 4}, {0, 4}, {48, 4}, {24, 2}, {12, 2}, {12}, {12, 4, 1}, {}}) {
    EXPECT_EQ(place({0, 1, 2, 3}, held).layout->optimizer_shard_size, 0) << to_string(held);
  }
  metadata_.parameters.clear();
  add("w", {8, 4}, std::nullopt, {{0, {0, 1}}});
  EXPECT_EQ(place({0, 1}, {4, 4}).layout->optimizer_shard_size, 0) << "without a layout";
  metadata_.parameters.clear();
  add("w", {8, 4}, layout_on(ranks({0, 2, 1, 3}), {4}, {{}, {}}), {{0, {0, 1, 2, 3}}});
  EXPECT_EQ(place({0, 1, 2, 3}, {4, 4}).layout->optimizer_shard_size, 0) << "irregular";
}

TEST_F(IterationCatalogueTest, RefusesInterleavedSlices) {
  RecordedLayout layout = rows_on(ranks({0, 1, 2, 3}));
  layout.interleaved = true;
  add("w", {8, 4}, layout, {{0, {0}}, {1, {1}}});
  expect_refused(ErrorKind::kUnsupported, {"interleaved_parallel"}, {0, 1}, {4, 4});
  expect_error(ErrorKind::kUnsupported, {"interleaved_parallel"},
               [&] { catalogue().layouts_of("w"); });
}

TEST_F(IterationCatalogueTest, RefusesANumberThatContradictsARegularList) {
  add("w", {8, 4}, rows_on(ranks({0, 1, 2, 3})), {{0, {0, 1}}, {1, {3}}});
  expect_refused(ErrorKind::kBadInput,
                 {"contradicts itself", "rank 1 has slice 1", "slice 0 is recorded"}, {0, 3},
                 {4, 4});
  metadata_.parameters.clear();
  add("w", {8, 4}, rows_on(ranks({0, 1, 2, 3})), {{0, {0}}, {18446744073709551615U, {1}}});
  expect_refused(ErrorKind::kBadInput, {"slice 18446744073709551615 is recorded"}, {0, 1}, {4, 4});
}

TEST_F(IterationCatalogueTest, RefusesAFileThatIsNamedForAnotherRank) {
  const auto four = ranks({0, 1, 2, 3});
  add_slices("w", {8}, layout_on(four, {4}, {{}}), {slice_in(0, 3, 1)});
  files_[3].rank = Rank(1);
  expect_refused(ErrorKind::kBadInput, {"contradicts itself", "'model-0000003-", "for rank 1"}, {3},
                 {8});
  name_file(3, "all.safetensors");
  EXPECT_EQ(rows_of(place({3}, {8})), (Rows{{1, 0}})) << "a name that tells of no rank";
}

TEST_F(IterationCatalogueTest, RefusesAFileOfTwoRanks) {
  add_slices("v", {8}, std::nullopt, {slice_in(0, 3, 3)});
  add_slices("w", {8}, std::nullopt, {slice_in(0, 3, 1)});
  expect_error(ErrorKind::kBadInput,
               {"contradicts itself", "'model-0000003-", "of rank 3 and of rank 1"},
               [&] { catalogue(); });
}

TEST_F(IterationCatalogueTest, KnowsTheRanksOfTheFiles) {
  name_file(0, "all.safetensors");
  add_slices("w", {8}, std::nullopt, {slice_in(0, 0, 7)});
  const auto& known = catalogue().file_ranks();
  ASSERT_EQ(known.size(), static_cast<std::size_t>(kFiles));
  EXPECT_THAT(known[0], Optional(Rank(7)));
  EXPECT_EQ(known[1], std::nullopt);
}

TEST_F(IterationCatalogueTest, RequiresAllNamesButThoseOfAccumulatedGradients) {
  for (const char* const name : {"w", "accu_grads.w", "adam_m.w", "net.accu_grads.w"}) {
    add(name, {8}, std::nullopt, {{0, {0}}});
  }
  const IterationCatalogue& known = catalogue();
  EXPECT_THAT(known.required_names(), ElementsAre("w", "adam_m.w"));
  EXPECT_TRUE(known.leaves_out("accu_grads.w"));
  EXPECT_TRUE(known.leaves_out("net.accu_grads.w"));
  EXPECT_FALSE(known.leaves_out("adam_m.w"));
  EXPECT_FALSE(known.leaves_out("my_accu_gradsx"));
}

}  // namespace
}  // namespace reshardfs
