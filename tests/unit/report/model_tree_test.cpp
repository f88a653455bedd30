// SPDX-License-Identifier: Apache-2.0
#include "report/text/model_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ModelTensor tensor(const std::string& name, const Shape& shape = {2, 4},
                   DType dtype = DType::kFloat32) {
  const std::int64_t bytes = element_count(shape) * element_size(dtype);
  return {name, dtype, shape, static_cast<std::uint64_t>(bytes)};
}

std::vector<ModelTensor> tensors(const std::vector<std::string>& names) {
  std::vector<ModelTensor> out;
  for (const std::string& name : names) out.push_back(tensor(name));
  return out;
}

/// "a(b c.{0..2}x3(w))"
std::string drawn(const TreeNode& node) {
  std::string text = node.label;
  if (node.repeated > 1) text += "x" + std::to_string(node.repeated);
  if (node.children.empty()) return text;
  std::string children;
  for (const TreeNode& child : node.children) {
    children += (children.empty() ? "" : " ") + drawn(child);
  }
  return text + "(" + children + ")";
}

std::string drawn(const std::vector<ModelTensor>& model) {
  return drawn(model_tree(model));
}

TEST(ModelTree, SplitsNamesAndJoinsOnlyChildren) {
  EXPECT_EQ(drawn(tensors({"model.norm.weight", "model.norm.bias", "model.head.weight", "step"})),
            "(model(norm(weight bias) head.weight) step)");
  EXPECT_EQ(drawn(tensors({"a/b/w", "a/c.w"})), "(a(b/w c.w))");
}

TEST(ModelTree, FoldsEqualLayers) {
  std::vector<ModelTensor> model{tensor("embedding", {100, 4})};
  for (int i = 0; i < 32; ++i) {
    const std::string layer = "layers." + std::to_string(i);
    model.push_back(tensor(layer + ".wq", {4, 4}));
    model.push_back(tensor(layer + ".norm", {4}, DType::kBFloat16));
  }
  const TreeNode root = model_tree(model);
  EXPECT_EQ(drawn(root), "(embedding layers.{0..31}x32(wq norm))");
  EXPECT_EQ(root.parameters, 65U);
  EXPECT_EQ(root.elements, 400U + 32 * 20);
  EXPECT_EQ(root.bytes, 1600U + 32 * 72);
  const TreeNode& layers = root.children[1];
  EXPECT_EQ(layers.parameters, 64U);
  EXPECT_EQ(layers.elements, 640U);
  EXPECT_THAT(layers.dtypes, ElementsAre(DType::kBFloat16, DType::kFloat32));
  EXPECT_EQ(layers.children[0].tensors, 32U);
  EXPECT_THAT(layers.children[0].shapes, ElementsAre(Shape{4, 4}));
  EXPECT_THAT(layers.shapes, IsEmpty());
}

TEST(ModelTree, FoldsOnlyWhatIsEqual) {
  std::vector<ModelTensor> model;
  for (int i = 0; i < 6; ++i) {
    const std::string layer = "layers." + std::to_string(i);
    model.push_back(tensor(layer + ".w", i == 2 ? Shape{2, 5} : Shape{2, 4}));
    model.push_back(tensor(layer + ".b", {4}, i == 4 ? DType::kFloat16 : DType::kFloat32));
  }
  EXPECT_EQ(drawn(model), "(layers({0,1,3,5}x4(w b) 2(w b) 4(w b)))");
  // The same bytes in another shape, and another name.
  EXPECT_EQ(drawn({tensor("l.0.w", {2, 4}), tensor("l.1.w", {4, 2}), tensor("l.2.v", {2, 4})}),
            "(l(0.w 1.w 2.v))");
}

TEST(ModelTree, FoldsLayersWithinLayers) {
  std::vector<ModelTensor> model;
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 8; ++k) {
      model.push_back(tensor("m." + std::to_string(i) + ".expert_" + std::to_string(k) + ".w1"));
    }
    model.push_back(tensor("m." + std::to_string(i) + ".norm"));
  }
  const TreeNode root = model_tree(model);
  EXPECT_EQ(drawn(root), "(m.{0..3}x4(expert_{0..7}.w1x8 norm))");
  EXPECT_EQ(root.children[0].children[0].tensors, 32U);
}

TEST(ModelTree, KeepsNamesThatEndInANumberByChance) {
  EXPECT_EQ(drawn(tensors({"f.w1", "f.w3", "f.w_n"})), "(f(w1 w3 w_n))");
  EXPECT_EQ(drawn(tensors({"f.w1", "f.w2", "f.w3"})), "(f.w{1..3}x3)");
}

TEST(ModelTree, TellsNumbersWithZerosApart) {
  EXPECT_EQ(drawn(tensors({"b.08.w", "b.09.w", "b.10.w", "b.8.w"})), "(b({08..10}.wx3 8.w))");
  const std::string large = std::string(30, '7');
  EXPECT_EQ(drawn(tensors({"b." + large, "b." + large + "1"})),
            "(b(" + large + " " + large + "1))");
}

TEST(ModelTree, HasAParameterAboveOthers) {
  const TreeNode root = model_tree(tensors({"w.bias", "w", "w.scale"}));
  EXPECT_EQ(drawn(root), "(w(bias scale (itself)))");
  EXPECT_EQ(root.parameters, 3U);
}

TEST(ModelTree, TakesOddNames) {
  EXPECT_EQ(drawn(tensors({"", "a//b", "/lead", "dots..", "trail/", "..", "x\ty"})),
            "(a//b /lead dots.. trail/ .. x\\x09y (itself))");
  // Deeper than anybody nests modules.
  const TreeNode deep = model_tree({{tensor(std::string(100'000, 'a')), tensor([] {
                                       std::string name;
                                       for (int i = 0; i < 50'000; ++i) name += "a.";
                                       return name;
                                     }())}});
  EXPECT_EQ(deep.parameters, 2U);
}

TEST(ModelTree, CountsSlicesOfOneName) {
  ModelTensor first = tensor("w", {3, 4});
  first.copies = 2;
  const TreeNode root = model_tree({{first, tensor("w", {2, 4})}});
  EXPECT_EQ(root.parameters, 1U);
  EXPECT_EQ(root.elements, 32U);
  EXPECT_EQ(root.children[0].tensors, 3U);
  EXPECT_THAT(root.children[0].shapes, ElementsAre(Shape{3, 4}, Shape{2, 4}));
}

TEST(ModelTree, CountsNoElementsOfText) {
  const TreeNode root = model_tree({{ModelTensor{"text", DType::kString, {}, 12}}});
  EXPECT_EQ(root.elements, 0U);
  EXPECT_EQ(root.bytes, 12U);
}

TEST(NumberSet, IsShort) {
  const auto set = [](const std::vector<std::uint64_t>& numbers, std::size_t digits = 0) {
    return number_set(numbers, digits);
  };
  EXPECT_EQ(set({5}), "{5}");
  EXPECT_EQ(set({0, 1}), "{0,1}");
  EXPECT_EQ(set({0, 1, 2, 7}), "{0..2,7}");
  EXPECT_EQ(set({0, 2, 4, 6, 8, 10}), "{0,2,...,10}");
  EXPECT_EQ(set({8, 9, 10}, 3), "{008..010}");
}

}  // namespace
}  // namespace reshardfs
