// SPDX-License-Identifier: Apache-2.0
/// Operations as they are written, and what they refuse.
#include "modelmap/operation.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"
#include "modelmap/form_inverse.h"
#include "reference.h"
#include "support/cpu_time.h"

namespace reshardfs::modelmap::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Variables kVariables{{{"a", 2}, {"b", 3}}, {}, {}};

NormalForm done(const std::string& text, const Shape& shape) {
  return apply(parse_operation(text), NormalForm::of_source(shape, 0), Scope(kVariables));
}

Shape shape_after(const std::string& text, const Shape& shape) {
  return done(text, shape).shape;
}

std::string refusal(const std::string& text, const Shape& shape = {4, 6}) {
  return refusal_of([&] { done(text, shape); });
}

TEST(Operation, TakesExpressionsAsNumbers) {
  EXPECT_EQ(shape_after("reshape [a, -1, b]", {4, 6}), (Shape{2, 4, 3}));
  EXPECT_EQ(shape_after("reshape [ (a+1)*4 ,a]", {4, 6}), (Shape{12, 2}));
  EXPECT_EQ(shape_after("reshape []", {1}), (Shape{}));
  EXPECT_EQ(shape_after("permute [a-1, 0]", {4, 6}), (Shape{6, 4}));
  EXPECT_EQ(shape_after("slice 1 a:b+a", {4, 6}), (Shape{4, 3}));
  EXPECT_EQ(shape_after("slice 1 :", {4, 6}), (Shape{4, 6}));
  EXPECT_EQ(shape_after("slice 1 ::4", {4, 6}), (Shape{4, 2}));
  EXPECT_EQ(shape_after("slice 1 1:a + b", {4, 6}), (Shape{4, 4}));
  EXPECT_EQ(shape_after("slice 0 :3", {4, 6}), (Shape{3, 6}));
  EXPECT_EQ(shape_after("split 1 b 2", {4, 6}), (Shape{4, 2}));
  EXPECT_EQ(shape_after("take 0 {a}", {4, 6}), (Shape{6}));
  EXPECT_EQ(shape_after("repeat 0 a", {4, 6}), (Shape{8, 6}));
  EXPECT_EQ(shape_after("pad 0 a * b", {4, 6}), (Shape{6, 6}));
  EXPECT_EQ(shape_after("pad  0  6 - 1", {4, 6}), (Shape{5, 6}));
}

TEST(Operation, PadsWithNumbersOfAllKinds) {
  const auto literal = [](const std::string& text) {
    const NormalForm form = done(text, {1});
    for (const FormTerm& box : form.boxes) {
      if (box.is_literal()) return Literal::of(box).bytes(DType::kFloat64);
    }
    return std::vector<std::byte>{};
  };
  EXPECT_EQ(literal("pad 0 2"), Literal::integer(0).bytes(DType::kFloat64));
  EXPECT_EQ(literal("pad 0 2 -1"), Literal::integer(-1).bytes(DType::kFloat64));
  EXPECT_EQ(literal("pad 0 2 a+b"), Literal::integer(5).bytes(DType::kFloat64));
  EXPECT_EQ(literal("pad 0 2 0.5"), Literal::real(0.5).bytes(DType::kFloat64));
  EXPECT_EQ(literal("pad 0 2 -1e-3"), Literal::real(-1e-3).bytes(DType::kFloat64));
  EXPECT_EQ(literal("fill 0 2"), Literal::integer(0).bytes(DType::kFloat64));
  EXPECT_EQ(literal("fill 0 2 0.5"), Literal::real(0.5).bytes(DType::kFloat64));
}

TEST(Operation, RefusesTextsThatAreNone) {
  for (const char* text : {"",
                           "turn 0",
                           "reshape",
                           "reshape 3",
                           "reshape [1,]",
                           "reshape [1",
                           "permute [0 1]",
                           "slice 0",
                           "slice 0 1",
                           "slice 0 1:2:3:4",
                           "slice 1:2",
                           "split 0 2",
                           "split 0 2 1 1",
                           "take 0",
                           "take",
                           "concat",
                           "concat 0 1",
                           "stack 0 x",
                           "stack 0 {}",
                           "stack 0 {1}",
                           "stack 0 {c} 1",
                           "repeat 0",
                           "pad 0",
                           "pad 0 1 2 3",
                           "fill 0",
                           "fill 0 1 2 3",
                           "cast fp32",
                           "cast fp32->int8",
                           "cast ->fp16",
                           "take 0 1 <2",
                           "reshape [1,2,3,4,5,6,7,8,9]"}) {
    EXPECT_NE(refusal_of([&] { parse_operation(text); }), "accepted") << text;
  }
}

TEST(Operation, RefusesHostileTextsQuickly) {
  const test::CpuTime taken;
  for (const char* start : {"reshape [", "slice 0 ", "pad 0 ", "stack 0 {", "take "}) {
    for (const char* piece : {"(", " ", "1 ", ":", ",", "[", "-"}) {
      std::string text = start;
      while (text.size() < (std::size_t{1} << 20U)) text += piece;
      EXPECT_THAT(refusal_of([&] { parse_operation(text); }), HasSubstr("longer"));
      EXPECT_NE(refusal_of([&] { parse_operation(text.substr(0, 16'000)); }), "accepted");
    }
  }
  EXPECT_LT(taken.seconds(), 5);
}

TEST(Operation, SaysWhyItIsNotPossible) {
  EXPECT_THAT(
      refusal("reshape [5, -1]"),
      AllOf(HasSubstr("not possible"), HasSubstr("cannot be divided"), HasSubstr("[4, 6]")));
  for (const char* text :
       {"reshape [4, 5]", "reshape [-1, -1]", "reshape [-2, -12]", "reshape [0, -1]",
        "permute [0]",    "permute [0, 0]",   "permute [0, 2]",    "permute [-1, 0]",
        "slice 2 0:1",    "slice -1 0:1",     "slice 0 -1:2",      "slice 0 3:2",
        "slice 0 0:5",    "slice 0 0:4:0",    "slice 0 0:4:-1",    "split 0 3 0",
        "split 0 2 2",    "split 0 0 0",      "split 0 2 -1",      "take 0 4",
        "take 0 -1",      "take 2 0",         "repeat 0 0",        "repeat 2 1",
        "pad 0 3",        "pad 2 9",          "fill 0 3",          "fill 2 9"}) {
    EXPECT_THAT(refusal(text), AllOf(HasSubstr("not possible"), HasSubstr("[4, 6]"))) << text;
  }
  EXPECT_THAT(refusal("take 0 nothing"), HasSubstr("unknown variable 'nothing'"));
}

TEST(Operation, StaysWithinTheLimits) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(shape_after("reshape [-1, 7]", {kMost}), (Shape{kMost / 7, 7}));
  EXPECT_THAT(refusal("repeat 0 2", {kMost}), HasSubstr("exceeds"));
  EXPECT_THAT(refusal("pad 0 9223372036854775807", {4, 2}), HasSubstr("exceeds"));
  EXPECT_THAT(refusal_of([] { NormalForm::of_source(Shape(9, 1), 0); }), HasSubstr("dimensions"));
  const NormalForm wide = NormalForm::of_source(Shape(8, 1), 0);
  EXPECT_THAT(refusal_of([&] { stack({wide}, 0); }), HasSubstr("8 dimensions"));
  // Each row would be a box of its own.
  const NormalForm turned = permute(NormalForm::of_source({3, 70'001}, 0), {1, 0});
  EXPECT_THAT(refusal_of([&] { reshape(turned, {3, 70'001}); }), HasSubstr("65536 boxes"));
  std::vector<std::int64_t> order;
  NormalForm many = NormalForm::of_source({std::int64_t{1} << 32}, 0);
  const auto shuffle = [&](std::int64_t step) {
    many = reshape(permute(reshape(many, {step, -1, 4, 2}), {3, 2, 1, 0}), {-1});
  };
  EXPECT_THAT(refusal_of([&] {
                for (const std::int64_t step : {8, 32, 128, 2, 512, 64, 8, 16, 4, 1024})
                  shuffle(step);
              }),
              HasSubstr("more than 16 axes"));
}

TEST(Operation, JoinsWhatFitsAlone) {
  const auto source = [](const Shape& shape) { return NormalForm::of_source(shape, 0); };
  for (const auto& join : {concat({source({0, 3}), source({2, 3})}, 0)}) {
    EXPECT_EQ(join.shape, (Shape{2, 3}));
  }
  EXPECT_THAT(refusal_of([&] {
                concat({source({4, 3}), source({4, 2})}, 0);
              }),
              HasSubstr("[4, 3] and [4, 2] do not fit together"));
  EXPECT_THAT(refusal_of([&] {
                concat({source({4}), source({4, 2})}, 0);
              }),
              HasSubstr("do not fit together"));
  EXPECT_THAT(refusal_of([&] {
                stack({source({4}), source({5})}, 0);
              }),
              HasSubstr("do not fit together"));
  EXPECT_THAT(refusal_of([&] {
                concat({source({4}), source({5})}, 1);
              }),
              HasSubstr("no dimension"));
  EXPECT_THAT(refusal_of([&] { stack({source({4})}, 2); }), HasSubstr("no dimension"));
}

TEST(Operation, CutsByRangesAsSlicesDo) {
  const NormalForm form = permute(NormalForm::of_source({4, 6}, 0), {1, 0});
  const NormalForm part = cut(form, {{2, 5, 1}, {1, 3, 1}});
  EXPECT_EQ(part, slice(slice(form, 0, {2, 5, 1}), 1, {1, 3, 1}));
  EXPECT_EQ(places_of(part),
            (std::vector<Place>{{0, 8}, {0, 14}, {0, 9}, {0, 15}, {0, 10}, {0, 16}}));
  EXPECT_NE(refusal_of([&] { cut(form, {{0, 1, 1}}); }), "accepted");
}

TEST(Operation, KeepsGroupedMatricesInFewBoxes) {
  // Query, key and value of 128 groups in group order.
  const auto part = [](std::int64_t rows, std::int64_t source) {
    return reshape(NormalForm::of_source({128 * rows, 7168}, source), {128, -1, 7168});
  };
  const NormalForm joined = reshape(concat({part(8, 0), part(1, 1), part(1, 2)}, 1), {-1, 7168});
  EXPECT_EQ(joined.boxes.size(), 3U);
  EXPECT_LE(joined.axis_count(), 4U);
  const IndexedForm indexed(joined);
  const Reading reading{&indexed, 0, false};
  const Inverse inverse = invert({1024, 7168}, {&reading, 1});
  EXPECT_EQ(inverse.undefined, 0);
  EXPECT_EQ(inverse.form.boxes.size(), 1U);
}

TEST(Literal, HasTheBytesOfItsType) {
  const auto hex = [](const std::vector<std::byte>& bytes) {
    std::string out;
    for (const std::byte byte : bytes)
      out += "0123456789abcdef"[std::to_integer<int>(byte) >> 4],
          out += "0123456789abcdef"[std::to_integer<int>(byte) & 15];
    return out;
  };
  EXPECT_EQ(hex(Literal::integer(2).bytes(DType::kFloat32)), "00000040");
  EXPECT_EQ(hex(Literal::integer(-1).bytes(DType::kInt16)), "ffff");
  EXPECT_EQ(hex(Literal::integer(1).bytes(DType::kBool)), "01");
  EXPECT_EQ(hex(Literal::real(1.0).bytes(DType::kBFloat16)), "803f");
  EXPECT_EQ(hex(Literal::integer(0).bytes(DType::kFloat8E4M3)), "00");
  EXPECT_EQ(hex(Literal::integer(5).bytes(DType::kUInt64)), "0500000000000000");
  const auto refused = [](const Literal& literal, DType dtype) {
    return refusal_of([&] { (void)literal.bytes(dtype); }) != "accepted";
  };
  EXPECT_TRUE(refused(Literal::integer(128), DType::kInt8));
  EXPECT_TRUE(refused(Literal::integer(-1), DType::kUInt8));
  EXPECT_TRUE(refused(Literal::integer(-1), DType::kUInt64));
  EXPECT_TRUE(refused(Literal::integer(2), DType::kBool));
  EXPECT_TRUE(refused(Literal::real(0.5), DType::kInt32));
  EXPECT_TRUE(refused(Literal::integer(1), DType::kFloat8E5M2));
  EXPECT_TRUE(refused(Literal::integer(0), DType::kString));
}

}  // namespace
}  // namespace reshardfs::modelmap::testing
