// SPDX-License-Identifier: Apache-2.0
#include "report/slice_map.h"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/page_data.h"
#include "report/page_slices.h"
#include "report/parameter_picture.h"
#include "support/boxes.h"
#include "support/checkpoint.h"
#include "support/ranks.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::memory_set;
using test::record;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::array<std::int64_t, 4>> numbers(const std::vector<Stretch>& list) {
  std::vector<std::array<std::int64_t, 4>> out;
  for (const Stretch& s : list) out.push_back({s.begin, s.end, s.destination_part, s.source_part});
  return out;
}

using Row = std::array<std::int64_t, 4>;

TEST(Stretches, EndWhereEitherSideIsCut) {
  EXPECT_THAT(numbers(stretches(AxisPartition::even(12, 2), AxisPartition::even(12, 3))),
              ElementsAre(Row{0, 4, 0, 0}, Row{4, 6, 0, 1}, Row{6, 8, 1, 1}, Row{8, 12, 1, 2}));
}

TEST(Stretches, FollowFields) {
  EXPECT_THAT(numbers(stretches(AxisPartition::by_field(8, 2, 2), AxisPartition::even(8, 1))),
              ElementsAre(Row{0, 2, 0, 0}, Row{2, 4, 1, 0}, Row{4, 6, 0, 0}, Row{6, 8, 1, 0}));
}

std::shared_ptr<const TargetTable> table(const Layout& from, const Layout& to, const Shape& slice,
                                         std::int64_t ranks) {
  std::map<std::int64_t, std::string> files;
  const auto bytes = static_cast<std::size_t>(element_count(slice));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    files[rank] = record("w", slice, "Int8", std::string(bytes, 'x'));
  }
  auto source =
      std::make_shared<const SourceTable>(memory_set(files), Strategy({{{"w", from}}}, 0, false));
  return std::make_shared<const TargetTable>(std::move(source), Strategy({{{"w", to}}}, 0, false),
                                             TargetOptions{});
}

TEST(SliceMap, SaysWhoHasAndWhoServesEachPart) {
  const auto target = table({.device_matrix = {2}, .tensor_map = {{0}, {}}},
                            {.device_matrix = {2, 2}, .tensor_map = {{}, {0}}}, {2, 4}, 2);
  const auto maps = slice_maps(*target, target->parameters().front(), test::ranks({0, 1, 2, 3}));
  ASSERT_EQ(maps.size(), 1U);
  const SliceMap& map = maps.front();
  EXPECT_THAT(map.source_parts, ElementsAre(2, 1));
  EXPECT_THAT(map.destination_parts, ElementsAre(1, 2));
  EXPECT_EQ(map.ranks.at({0, 0}), test::ranks({0, 2}));
  EXPECT_EQ(map.ranks.at({0, 1}), test::ranks({1, 3}));
  EXPECT_EQ(map.holdings.at({1, 0}).file->rank, Rank(1));
  EXPECT_EQ(cut_text(map.source_parts), "cut 2 \u00d7 1");
}

TEST(SliceMap, ShowsTheTwoMostCutDimensionsAtIndexZeroOfTheOthers) {
  const auto target =
      table({.device_matrix = {2}, .tensor_map = {{0}, {}, {}, {}}},
            {.device_matrix = {2, 4, 8}, .tensor_map = {{2}, {}, {1}, {0}}}, {2, 3, 4, 8}, 2);
  const RankRange all = test::first_ranks(64);
  const SliceMap map =
      slice_maps(*target, target->parameters().front(), {all.begin(), all.end()}).front();
  EXPECT_EQ(map.row_dimension, 2U);
  EXPECT_EQ(map.column_dimension, 3U);
  EXPECT_THAT(map.hidden, ElementsAre(0));
  EXPECT_EQ(map.ranks.size(), 32U);
  EXPECT_EQ(map.ranks.at({1, 2}), test::ranks({10}));
  EXPECT_EQ(map.holdings.at({0, 0}).file->rank, Rank(0));
}

TEST(SliceMap, IsBounded) {
  const auto target = table({.device_matrix = {1}, .tensor_map = {{}}},
                            {.device_matrix = {8192}, .tensor_map = {{0}}}, {8192}, 1);
  const SliceMap map =
      slice_maps(*target, target->parameters().front(), test::ranks({0, 1})).front();
  EXPECT_TRUE(map.shortened);
  EXPECT_EQ(map.columns.size(), 2048U);
}

TEST(SliceMap, IsNoneOfWhatHasNoElements) {
  const auto target = table({.device_matrix = {1}, .tensor_map = {{}, {}}},
                            {.device_matrix = {1}, .tensor_map = {{}, {}}}, {0, 4}, 1);
  EXPECT_THAT(slice_maps(*target, target->parameters().front(), test::ranks({0})), IsEmpty());
}

/// Of parameter 0, on a card or not, what write_card() and write_rest() write.
std::string page_of(const TargetTable& target, bool on_card) {
  const std::vector<Rank> ranks = test::ranks({0, 1});
  PageSlices slices(target, ranks, {0});
  EXPECT_THAT(slices.numbers(), ElementsAre(0));
  std::string page;
  const TextSink sink = [&](std::string_view text) { page += text; };
  BoundedWriter out(sink);
  if (on_card) slices.write_card(0, out);
  slices.write_rest(out);
  out.flush();
  return page;
}

TEST(PageSlices, HaveEachPictureOnce) {
  const auto target = table({.device_matrix = {2}, .tensor_map = {{0}, {}}},
                            {.device_matrix = {2}, .tensor_map = {{}, {0}}}, {2, 4}, 2);
  const auto count = [](const std::string& page, const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) {
      ++found;
    }
    return found;
  };
  for (const bool on_card : {false, true}) {
    const std::string page = page_of(*target, on_card);
    EXPECT_EQ(count(page, "<template id=\"source-0\">"), 1U);
    EXPECT_EQ(count(page, "<template id=\"target-0\">"), on_card ? 0U : 1U);
    EXPECT_EQ(count(page, "id=\"target-0\""), 1U);
    EXPECT_EQ(count(page, "<title>[0:2, 0:4] source rank 0</title>"), 1U);
    EXPECT_EQ(count(page, "<title>[0:2, 0:2] target rank 0 \u2190 source rank 0</title>"), 1U);
  }
}

TEST(SliceMap, IsNoneOfBoxes) {
  auto source = std::make_shared<const SourceTable>(
      test::box_set({test::piece_file(0, test::pinwheel("w"))}, {{"w", {3, 4}}}), std::nullopt);
  const TargetTable target(std::move(source), std::nullopt, {});
  const TargetParameter& parameter = target.parameters().front();
  EXPECT_THAT(slice_maps(target, parameter, test::ranks({0})), IsEmpty());

  std::string picture;
  const TextSink to_picture = [&](std::string_view text) { picture += text; };
  BoundedWriter picture_out(to_picture);
  draw_parameter(target, parameter, test::ranks({0}), Placement::kDocument,
                 DrawnSlices::kOfBothSides, picture_out);
  picture_out.flush();
  EXPECT_THAT(picture, HasSubstr("[3, 4]: 5 boxes in the source, not drawn"));

  std::string data;
  const TextSink to_data = [&](std::string_view text) { data += text; };
  BoundedWriter data_out(to_data);
  write_report_data(target, test::ranks({0}), survey_traffic(target, test::ranks({0}), 4), {0},
                    {-1}, data_out);
  data_out.flush();
  EXPECT_THAT(data, HasSubstr(R"("cuts":["5 boxes","whole"])"));
}

}  // namespace
}  // namespace reshardfs
