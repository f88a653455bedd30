// SPDX-License-Identifier: Apache-2.0
/// What rules say of whole tensors.
#include "modelmap/whole_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/modelmap/map_samples.h"

namespace reshardfs::modelmap::testing {
namespace {

using ::testing::HasSubstr;

TEST(WholeShape, HasLengthsACutAndItsUnits) {
  const WholeShape shape = WholeShape::parse("[hidden, cut heads*head_dim by heads]");
  EXPECT_EQ(shape.formula(), "hidden, heads*head_dim");
  EXPECT_EQ(shape.cut, 1U);
  ASSERT_TRUE(shape.unit);
  EXPECT_EQ(shape.unit->text(), "heads");
  const WholeShape norm = WholeShape::parse("[hidden]");
  EXPECT_FALSE(norm.cut);
  EXPECT_FALSE(norm.unit);
}

TEST(WholeShape, RefusesWhatItCannotRead) {
  EXPECT_THAT(refusal_of([] { WholeShape::parse("hidden"); }), HasSubstr("no list"));
  EXPECT_THAT(refusal_of([] { WholeShape::parse("[cut a, cut b]"); }),
              HasSubstr("more than one 'cut'"));
  EXPECT_THAT(refusal_of([] { WholeShape::parse("[cut a by ]"); }),
              HasSubstr("'by' is unexpected"));
}

const NamedTensors& tensors_of(const ModelMap& map, bool is_from, const std::string& name) {
  for (const NamedTensors& tensors : map.tensors) {
    if (tensors.is_from == is_from && tensors.name == name) return tensors;
  }
  throw Error(ErrorKind::kMissing, name);
}

TEST(WholeShape, OfARuleWithoutOperationsHoldsForBothSides) {
  const ModelMap map = map_of(R"(
[[block]]
from = "a.{layer}."
to = "b.{layer}."
[[map]]
to = "@x.{p:weight|bias}"
from = "@y.{p:weight|bias}"
whole = { weight = "[cut F, H]", bias = "[cut F]" }
[[map]]
to = "j"
from = ["k", "l"]
ops = ["concat 0"]
whole = ["[F]", "[H]"]
[[map]]
to = "m"
from = ["n", "o"]
ops = ["concat 0"]
to_whole = "[H]"
[[alias]]
side = "to"
name = "j2"
of = "m"
)");
  for (const auto& [is_from, name] : {std::pair(true, "y"), std::pair(false, "x")}) {
    const auto& wholes = tensors_of(map, is_from, std::string(name) + ".{p:weight|bias}").wholes;
    ASSERT_TRUE(wholes);
    EXPECT_EQ(wholes->at("bias").formula(), "F");
    EXPECT_EQ(wholes->at("weight").formula(), "F, H");
  }
  EXPECT_EQ(tensors_of(map, true, "l").wholes->at("").formula(), "H");
  EXPECT_FALSE(tensors_of(map, false, "j").wholes);
  EXPECT_FALSE(tensors_of(map, true, "n").wholes);
  EXPECT_EQ(tensors_of(map, false, "j2").wholes->at("").formula(), "H");
}

TEST(WholeShape, IsRefusedWithItsLine) {
  const std::string rule = "[[map]]\nto = \"x.{p:weight|bias}\"\nfrom = \"y.{p:weight|bias}\"\n";
  const auto refusal = [&](const std::string& more) {
    return refusal_of([&] { map_of(rule + more); });
  };
  EXPECT_THAT(refusal("whole = { weigt = \"[H]\" }\n"), HasSubstr("'weigt', which no capture"));
  EXPECT_THAT(refusal("whole = 3\n"), HasSubstr("line 4"));
  EXPECT_THAT(refusal("whole = [\"[H]\", \"[F]\"]\n"), HasSubstr("2 entries, but 'from' has 1"));
}

}  // namespace
}  // namespace reshardfs::modelmap::testing
