// SPDX-License-Identifier: Apache-2.0
/// Derived strategies against compiled ones: golden cases in which only sizes differ.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout/slicing.h"
#include "rules_samples.h"

namespace reshardfs::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

fs::path golden(const std::string& name) {
  return fs::path(RESHARDFS_GOLDEN_DIR) / name;
}

Strategy source_of(const std::string& name) {
  return Strategy::load(golden(name) / "src_strategy.ckpt");
}

/// The full shapes of a case's parameters, which its JSON strategies have where no map is nested.
std::map<std::string, Shape> shapes_of(const std::string& name) {
  std::map<std::string, Shape> shapes;
  for (const char* file : {"src_strategy.json", "dst_strategy.json"}) {
    if (!fs::exists(golden(name) / file)) continue;
    for (const StageLayouts& stage : stages_of(Strategy::load(golden(name) / file))) {
      for (const auto& [parameter, layout] : stage) shapes[parameter] = layout.tensor_shape;
    }
  }
  return shapes;
}

/// The same slice on every device, whatever the layouts look like.
void expect_same_slices(const Layout& derived, const Layout& compiled, const Shape& shape) {
  const Slicing left(derived, shape);
  const Slicing right(compiled, shape);
  ASSERT_EQ(left.devices(), right.devices());
  for (std::int64_t rank = 0; rank < left.devices(); ++rank) {
    EXPECT_EQ(left.slice_shape(rank), right.slice_shape(rank)) << "rank " << rank;
    EXPECT_EQ(left.parts_of(rank), right.parts_of(rank)) << "rank " << rank;
  }
  EXPECT_EQ(left.cell_count(), right.cell_count());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    EXPECT_EQ(left.partitions()[d].parts(), right.partitions()[d].parts()) << "dimension " << d;
  }
}

struct Case {
  const char* name;
  const char* text;
};

void PrintTo(const Case& test, std::ostream* out) {
  *out << test.name << " by " << test.text;
}

class DerivedGolden : public ::testing::TestWithParam<Case> {};

TEST_P(DerivedGolden, MeansTheSameAsTheCompiledStrategy) {
  const std::string name = GetParam().name;
  const Strategy derived = derive_strategy(parse_derivation(GetParam().text), source_of(name));
  const Strategy compiled = Strategy::load(golden(name) / "dst_strategy.ckpt");
  const std::map<std::string, Shape> shapes = shapes_of(name);
  ASSERT_EQ(derived.stage_count(), compiled.stage_count());
  EXPECT_EQ(derived.devices_per_stage(), compiled.devices_per_stage());
  for (std::int64_t stage = 0; stage < compiled.stage_count(); ++stage) {
    const StageLayouts& layouts = derived.stage(stage);
    EXPECT_EQ(layouts.size(), compiled.stage(stage).size()) << "stage " << stage;
    for (const auto& [parameter, layout] : compiled.stage(stage)) {
      SCOPED_TRACE("stage " + std::to_string(stage) + ", parameter " + parameter);
      ASSERT_TRUE(layouts.contains(parameter));
      ASSERT_TRUE(shapes.contains(parameter));
      expect_same_slices(layouts.at(parameter), layout, shapes.at(parameter));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DerivedGolden,
    ::testing::Values(Case{"tp8_to_tp4", "tp=4"}, Case{"tp4_to_tp8", "tp=8"},
                      Case{"dp2tp2_to_tp4", "tp=4"}, Case{"tp4_to_dp2tp2", "tp=2,dp=2"},
                      Case{"pp2tp2_to_tp4", "tp=4,pp=1"}, Case{"pp2tp2_to_pp4tp2", "pp=4"},
                      Case{"pp2tp2_to_pp4tp1_ERROR", "tp=1,pp=4"}, Case{"not_power_of_two", "tp=3"},
                      Case{"tp4dp2optall_to_tp4", "tp=4"},
                      Case{"tp2dp4opt2_to_tp4dp2optall", "tp=4,dp=2,opt=on"},
                      Case{"tp4_to_tp2dp4opt4", "tp=2,dp=4,opt=4"}, Case{"nested_to_flat", "dp=1"},
                      Case{"flat_to_nested_opt", "tp=4,dp=2,opt=on"},
                      Case{"pp2_shared_embedding", "tp=2,dp=2,pp=1"},
                      Case{"tp_outer_axis", "tp=2,dp=2"}, Case{"same_layout", "dp=2"},
                      Case{"load_distributed_ckpt", "tp=2"}, Case{"by_rank", "tp=2"},
                      Case{"st_pp2_to_tp4", "tp=4,pp=1"}, Case{"st_opt_to_tp4_bf16", "tp=4"},
                      Case{"unicode_names", "tp=4"}, Case{"err_dash_in_name", "tp=4"},
                      Case{"tutorial", "tp=2"}, Case{"weights_plain_moments_opt", "tp=4"}),
    [](const auto& test) { return std::string(test.param.name); });

/// A source that cuts nothing says nothing about tp, but its layers can be divided.
TEST(DerivedGoldenCase, StagesAloneAreTheCompiledOnes) {
  const Strategy derived = derive_strategy(parse_derivation("pp=2"), source_of("pp4tp1_to_pp2tp2"));
  const Strategy compiled = Strategy::load(golden("pp4tp1_to_pp2tp2") / "dst_strategy.ckpt");
  ASSERT_EQ(derived.stage_count(), 2);
  for (std::int64_t stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(derived.stage(stage).size(), compiled.stage(stage).size());
    for (const auto& item : compiled.stage(stage)) {
      EXPECT_TRUE(derived.stage(stage).contains(item.first)) << stage << " " << item.first;
    }
  }
}

std::string golden_refusal(const std::string& name, const std::string& text) {
  return refusal_of([&] { derive_strategy(parse_derivation(text), source_of(name)); });
}

TEST(DerivedGoldenCase, WhatIsAmbiguousIsRefused) {
  EXPECT_THAT(golden_refusal("moe_3d", "tp=4"), HasSubstr("axis 0 of the device matrix [2, 2, 2]"));
  EXPECT_THAT(golden_refusal("moe_3d", "tp=4"),
              HasSubstr("cuts 'model.layers.0.feed_forward.ffn.w1'"));
  EXPECT_THAT(golden_refusal("two_dim_split", "tp=4"), HasSubstr("over 2 different axes"));
  EXPECT_THAT(golden_refusal("opt_permuted_map_WRONG", "tp=4"), HasSubstr("over 2 different axes"));
  EXPECT_THAT(golden_refusal("pp4tp1_to_pp2tp2", "tp=2,pp=2"),
              HasSubstr("the source cuts no parameter"));
  EXPECT_THAT(golden_refusal("dp4opt_to_tp4", "tp=4"), HasSubstr("the source cuts no parameter"));
  EXPECT_THAT(golden_refusal("tp4_to_pp2tp2", "tp=2,pp=2"),
              HasSubstr("where to place parameters outside the layers: "
                        "'lm_head.weight', 'model.norm_out.weight', "));
  EXPECT_THAT(golden_refusal("merge_uneven", "tp=2"),
              HasSubstr("parameter 'embedding_table': the source cuts it into parts of the "
                        "lengths [3, 9, 1, 7], and the file does not give the lengths of 2 parts"));
}

}  // namespace
}  // namespace reshardfs::testing
