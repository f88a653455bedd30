// SPDX-License-Identifier: Apache-2.0
#include "report/text/model_tree_text.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/text/text.h"

namespace reshardfs {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<ModelTensor> llama(int layers) {
  std::vector<ModelTensor> model{
      {"model.tok_embeddings.embedding_weight", DType::kBFloat16, {1000, 64}, 128'000}};
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    // Each layer of its own size: nothing is folded.
    model.push_back({layer + "attention.wq.weight",
                     DType::kBFloat16,
                     {64, 64 + i},
                     static_cast<std::uint64_t>(64 * (64 + i) * 2)});
    model.push_back({layer + "attention.norm.weight", DType::kFloat32, {64}, 256});
  }
  return model;
}

std::size_t widest(const std::string& text) {
  std::size_t width = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) width = std::max(width, text_width(line));
  return width;
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(TreeText, ShowsSharesAndSums) {
  const std::vector<ModelTensor> model{{"a.w", DType::kFloat32, {6, 4}, 96},
                                       {"a.b", DType::kFloat32, {4}, 16},
                                       {"s", DType::kString, {}, 16}};
  EXPECT_EQ(tree_text(model_tree(model), {}),
            "NAME     TYPE              ELEMS   SIZE  SHARE\n"
            "all      3 x Float32, str     28  128 B   100% ################\n"
            "|- a     2 x Float32          28  112 B  87.5% ##############\n"
            "|  |- w  Float32 [6, 4]       24   96 B  75.0% ############\n"
            "|  `- b  Float32 [4]           4   16 B  12.5% ##\n"
            "`- s     str                   0   16 B  12.5% ##\n");
}

TEST(TreeText, StaysInTheColumns) {
  const TreeNode root = model_tree(llama(3));
  for (std::size_t columns = 40; columns < 130; ++columns) {
    for (const bool utf8 : {false, true}) {
      EXPECT_LE(widest(tree_text(root, {columns, kAnyHeight, 0, false, utf8})), columns);
    }
  }
  const std::string usual = tree_text(root, {.columns = 80});
  EXPECT_THAT(usual, HasSubstr("BF16 [64, 65]"));
  EXPECT_THAT(usual, HasSubstr("ELEMS"));
  EXPECT_THAT(usual, HasSubstr("####"));
  EXPECT_THAT(tree_text(root, {.columns = 120}), HasSubstr("BFloat16 [64, 65]"));
}

TEST(TreeText, FitsTheLinesAndSaysWhatIsFolded) {
  const TreeNode root = model_tree(llama(30));
  EXPECT_GT(lines_of(tree_text(root, {})), 90U);
  const std::string text = tree_text(root, {.lines = 50});
  EXPECT_LE(lines_of(text), 50U);
  EXPECT_THAT(text, HasSubstr("60 parameters are folded in 30 lines: --depth 4 shows all\n"));
  const std::string all = tree_text(root, {.lines = 50, .depth = 4});
  EXPECT_THAT(all, Not(HasSubstr("folded")));
  EXPECT_EQ(all, tree_text(root, {}));
}

TEST(TreeText, CutsAListThatIsTooLong) {
  std::vector<ModelTensor> model;
  for (int i = 0; i < 1000; ++i) {
    model.push_back({"w_" + std::string(1, static_cast<char>('a' + i % 26)) + std::to_string(i),
                     DType::kInt8,
                     {i + 1},
                     static_cast<std::uint64_t>(i + 1)});
  }
  const std::string text = tree_text(model_tree(model), {.lines = 24});
  EXPECT_LE(lines_of(text), 24U);
  EXPECT_THAT(text, HasSubstr("more parameters of 488.6 KiB: --depth 1 shows them\n"));
  EXPECT_EQ(lines_of(tree_text(model_tree(model), {.lines = 24, .depth = 1})), 1002U);
}

TEST(TreeText, DrawsWithWhatTheTerminalHas) {
  const TreeNode root = model_tree(llama(2));
  const std::string plain = tree_text(root, {});
  EXPECT_TRUE(std::all_of(plain.begin(), plain.end(), [](char c) { return c > 0; }));
  EXPECT_THAT(plain, Not(HasSubstr("\033")));
  const std::string drawn = tree_text(root, {.colour = true, .utf8 = true});
  EXPECT_THAT(drawn, HasSubstr("█"));
  EXPECT_THAT(drawn, HasSubstr("\033[36m"));
}

TEST(HumanCount, HasThreeDigits) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1000), "1.00K");
  EXPECT_EQ(human_count(124'400'000), "124M");
  EXPECT_EQ(human_count(999'999), "1.00M");
  EXPECT_EQ(human_count(8'030'261'248), "8.03B");
  EXPECT_EQ(human_count(std::numeric_limits<std::uint64_t>::max()), "18.4E");
}

}  // namespace
}  // namespace reshardfs
