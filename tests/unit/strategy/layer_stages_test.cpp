// SPDX-License-Identifier: Apache-2.0
#include "strategy/derive/layer_stages.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs::layer_stages_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Call>
std::string refusal_by(const Call& call) {
  try {
    static_cast<void>(call());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(StageLayers, AreNumbersWithCommas) {
  EXPECT_THAT(parse_stage_layers("10,9,0"), ElementsAre(10, 9, 0));
  EXPECT_THAT(parse_stage_layers("65536"), ElementsAre(65536));
  EXPECT_EQ(to_text({10, 9, 0}), "10,9,0");
  for (const char* text : {"", "1,", ",1", "1, 2", "-1", "65537", "a", "99999999999999999999"}) {
    EXPECT_THAT(refusal_by([&] { return parse_stage_layers(text); }), HasSubstr("10,9,9,8"))
        << text;
  }
}

TEST(StageLayers, SayTheStageOfEachLayer) {
  EXPECT_THAT(stages_of_layers(5, 3, {2, 0, 3}), ElementsAre(0, 0, 2, 2, 2));
  EXPECT_EQ(refusal_by([] { return stages_of_layers(5, 2, {5}); }),
            "--stage-layers 5: 1 number for pp=2; give the number of layers of each stage");
  EXPECT_EQ(refusal_by([] {
              return stages_of_layers(1, 2, {1, 1});
            }),
            "--stage-layers 1,1: the sum is 2, but the model has 1 layer");
}

TEST(StageLayers, AreEqualIfNothingElseIsSaid) {
  EXPECT_THAT(equal_stages_of_layers(4, 2), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(refusal_by([] { return equal_stages_of_layers(8, 3); }),
            "pp=3 does not divide the 8 layers of the model; --stage-layers states how many each "
            "stage has, for example 3,3,2");
  EXPECT_THAT(refusal_by([] { return equal_stages_of_layers(2, 3); }),
              HasSubstr("fewer layers than stages"));
}

TEST(StageLayers, AreBalancedWithoutDifferingByMoreThanOne) {
  EXPECT_THAT(balanced_stages_of_layers(0, 2), IsEmpty());
  for (std::int64_t stages = 1; stages < 9; ++stages) {
    for (std::int64_t layers = stages; layers < 40; ++layers) {
      const std::vector<std::int64_t> of_layers = balanced_stages_of_layers(layers, stages);
      ASSERT_EQ(of_layers.size(), static_cast<std::size_t>(layers));
      EXPECT_TRUE(std::is_sorted(of_layers.begin(), of_layers.end()));
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(std::count(of_layers.begin(), of_layers.end(), stage),
                  layers / stages + (stage < layers % stages ? 1 : 0));
      }
    }
  }
}

}  // namespace
}  // namespace reshardfs::layer_stages_tests
