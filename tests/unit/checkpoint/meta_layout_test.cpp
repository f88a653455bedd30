// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/meta_layout.h"

#include <string>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs::meta_layout_tests {
namespace {

using test::expect_error;

MetaSizes sizes_of(const std::string& text) {
  return MetaSizes::of(modelmap::ModelConfig::parse(text));
}

const MetaSizes kSizes =
    sizes_of(R"({"dim": 16, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 20})");

void expect_part(const char* name, const Shape& part, std::int64_t files, const Shape& full,
                 std::optional<std::size_t> cut) {
  const MetaPart placed = meta_part(name, part, files, kSizes);
  EXPECT_EQ(placed.full_shape, full) << name;
  EXPECT_EQ(placed.cut, cut) << name;
}

void expect_no_part(const char* name, const Shape& part, std::int64_t files) {
  expect_error(ErrorKind::kBadInput, {to_string(part), "not what params.json states"},
               [&] { meta_part(name, part, files, kSizes); });
}

TEST(MetaSizes, AreThoseOfParams) {
  EXPECT_EQ(kSizes.head_dim, 4);
  EXPECT_EQ(kSizes.query_rows, 16);
  EXPECT_EQ(kSizes.key_rows, 8);
  EXPECT_EQ(kSizes.vocabulary, 20);
  const MetaSizes second = sizes_of(R"({"dim": 16, "n_heads": 4, "vocab_size": -1})");
  EXPECT_EQ(second.key_rows, 16);
  EXPECT_FALSE(second.vocabulary);
  EXPECT_EQ(sizes_of(R"({"dim": 16, "n_heads": 3, "head_dim": 8})").query_rows, 24);
  expect_error(ErrorKind::kBadInput, {"'dim'"}, [] { sizes_of(R"({"n_heads": 4})"); });
  expect_error(ErrorKind::kBadInput, {"'n_heads'"}, [] { sizes_of(R"({"dim": 4})"); });
  expect_error(ErrorKind::kBadInput, {"no multiple"},
               [] { sizes_of(R"({"dim": 4, "n_heads": 3})"); });
}

TEST(MetaLayout, QueriesProveTheNumberOfFiles) {
  EXPECT_EQ(proven_files("layers.7.attention.wq.weight", {4, 16}, kSizes), 4);
  EXPECT_EQ(proven_files("layers.0.attention.wq.weight", {16, 16}, kSizes), 1);
  EXPECT_FALSE(proven_files("layers.0.attention.wk.weight", {4, 16}, kSizes));
  EXPECT_FALSE(proven_files("layers.x.attention.wq.weight", {4, 16}, kSizes));
  for (const Shape& part : {Shape{3, 16}, Shape{32, 16}, Shape{4, 8}, Shape{0, 16}, Shape{16}}) {
    expect_error(ErrorKind::kBadInput, {"layers.0.attention.wq.weight", to_string(part)},
                 [&] { proven_files("layers.0.attention.wq.weight", part, kSizes); });
  }
}

TEST(MetaLayout, CutsRowsAndColumns) {
  expect_part("layers.3.attention.wk.weight", {4, 16}, 2, {8, 16}, 0);
  expect_part("layers.3.attention.wo.weight", {16, 4}, 4, {16, 16}, 1);
  expect_part("layers.3.feed_forward.w1.weight", {10, 16}, 2, {20, 16}, 0);
  expect_part("layers.3.feed_forward.w2.weight", {16, 10}, 2, {16, 20}, 1);
  expect_part("output.weight", {10, 16}, 2, {20, 16}, 0);
  expect_part("norm.weight", {16}, 2, {16}, std::nullopt);
  expect_part("rope.freqs", {2}, 2, {2}, std::nullopt);
  expect_part("layers.3.attention.wk.weight", {8, 16}, 1, {8, 16}, std::nullopt);
}

TEST(MetaLayout, EmbeddingsAreCutAsTheirShapeProves) {
  expect_part("tok_embeddings.weight", {10, 16}, 2, {20, 16}, 0);
  expect_part("tok_embeddings.weight", {20, 8}, 2, {20, 16}, 1);
  expect_no_part("tok_embeddings.weight", {20, 16}, 2);
  expect_no_part("tok_embeddings.weight", {10, 8}, 2);
}

TEST(MetaLayout, OtherShapesDoNotFit) {
  expect_no_part("layers.3.attention.wk.weight", {8, 16}, 2);
  expect_no_part("layers.3.attention.wk.weight", {4, 8}, 2);
  expect_no_part("layers.3.attention.wo.weight", {8, 16}, 2);
  expect_no_part("layers.3.feed_forward.w1.weight", {16, 10}, 2);
  expect_no_part("norm.weight", {8}, 2);
  expect_no_part("norm.weight", {16, 1}, 2);
}

TEST(MetaLayout, OtherNamesAreNotStated) {
  for (const char* name : {"layers.3.attention.wq.bias", "vision.weight", "layers.norm.weight",
                           "layers.3.norm.weight", "x.layers.3.ffn_norm.weight"}) {
    expect_error(ErrorKind::kUnsupported, {"does not state"},
                 [&] { meta_part(name, {16}, 2, kSizes); });
    EXPECT_EQ(meta_part(name, {7}, 1, kSizes).full_shape, Shape{7});
  }
}

}  // namespace
}  // namespace reshardfs::meta_layout_tests
