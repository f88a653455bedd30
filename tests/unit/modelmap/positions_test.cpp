// SPDX-License-Identifier: Apache-2.0
/// Captures whose numbers in names are not their values.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"

namespace reshardfs::modelmap::testing::positions_tests {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Direction kForward = Direction::kForward;
constexpr Direction kInverse = Direction::kInverse;

SourceTensor tensor(const std::string& name, const Shape& shape) {
  return {name, DType::kFloat32, shape};
}

MapOptions options(Direction direction, const std::string& config = "{}") {
  MapOptions out;
  out.direction = direction;
  out.config = ModelConfig::parse(config);
  return out;
}

std::vector<std::string> targets_of(const Mapping& mapping) {
  std::vector<std::string> lines;
  for (const TargetTensor& target : mapping.targets) {
    lines.push_back(target.name + " " + to_string(target.shape()));
  }
  return lines;
}

std::vector<std::string> mapped(const std::string& map, Direction direction,
                                const std::vector<SourceTensor>& tensors) {
  MapOptions without_config;
  without_config.direction = direction;
  return targets_of(map_tensors(map_of(map), tensors, without_config));
}

std::vector<std::string> problems(const std::string& map, const MapOptions& of,
                                  const std::vector<SourceTensor>& tensors) {
  std::vector<std::string> messages;
  for (const auto& problem : check_mapping(map_of(map), tensors, of).problems) {
    messages.push_back(problem.error().what());
  }
  return messages;
}

/// Layers whose halves are layers of their own on the other side.
constexpr const char* kHalves = R"(
[counts]
layer = "layers"
[[map]]
to = "l.{2*layer}.attention"
from = "l.{layer}.attention"
[[map]]
to = "l.{2*layer+1}.mlp"
from = "l.{layer}.mlp"
)";

/// The same, of tensors with all layers.
constexpr const char* kStackedHalves = R"(
[[map]]
to = "l.{2*layer}.attention"
from = "l.attention"
range = { layer = "layers" }
shape = "[layers, A]"
ops = ["take 0 layer"]
to_shape = "[A]"
[[map]]
to = "l.{2*layer+1}.mlp"
from = "l.mlp"
range = { layer = "layers" }
shape = "[layers, A, B]"
ops = ["take 0 layer"]
to_shape = "[A, B]"
)";

TEST(Positions, OfMultiplesGoBothWays) {
  const std::vector<SourceTensor> whole = {tensor("l.0.attention", {4}), tensor("l.0.mlp", {5}),
                                           tensor("l.1.attention", {4}), tensor("l.1.mlp", {5})};
  EXPECT_THAT(mapped(kHalves, kForward, whole),
              ElementsAre("l.0.attention [4]", "l.1.mlp [5]", "l.2.attention [4]", "l.3.mlp [5]"));
  const std::vector<SourceTensor> halves = {tensor("l.0.attention", {4}), tensor("l.1.mlp", {5}),
                                            tensor("l.2.attention", {4}), tensor("l.3.mlp", {5})};
  EXPECT_THAT(mapped(kHalves, kInverse, halves),
              ElementsAre("l.0.attention [4]", "l.0.mlp [5]", "l.1.attention [4]", "l.1.mlp [5]"));
  const std::vector<SourceTensor> stacked = {tensor("l.attention", {2, 4}),
                                             tensor("l.mlp", {2, 5, 6})};
  EXPECT_THAT(
      mapped(kStackedHalves, kForward, stacked),
      ElementsAre("l.0.attention [4]", "l.2.attention [4]", "l.1.mlp [5, 6]", "l.3.mlp [5, 6]"));
  EXPECT_THAT(mapped(kStackedHalves, kInverse,
                     {tensor("l.0.attention", {4}), tensor("l.2.attention", {4}),
                      tensor("l.1.mlp", {5, 6}), tensor("l.3.mlp", {5, 6})}),
              ElementsAre("l.attention [2, 4]", "l.mlp [2, 5, 6]"));
}

TEST(Positions, AreCountedByTheCaptureAndNotByTheName) {
  // Of 2 layers, the names have numbers up to 3.
  const std::vector<SourceTensor> halves = {tensor("l.0.attention", {4}), tensor("l.1.mlp", {5}),
                                            tensor("l.2.attention", {4}), tensor("l.3.mlp", {5})};
  EXPECT_THAT(problems(kHalves, options(kInverse, R"({"num_layers": 2})"), halves), ElementsAre());
  EXPECT_THAT(problems(kHalves, options(kInverse, R"({"num_layers": 3})"), halves),
              ElementsAre(HasSubstr("'layers' of config.json is 3, but the names of the tensors "
                                    "have 2 of {layer} (0 to 1), and layer 2 is missing")));
  EXPECT_THAT(problems(kHalves, options(kInverse), {halves[0], halves[1], halves[2]}),
              ElementsAre(HasSubstr("l.3.mlp: missing in the source")));
}

TEST(Positions, OfAnotherRemainderBelongToNoRule) {
  EXPECT_THAT(problems(kHalves, options(kInverse),
                       {tensor("l.0.attention", {4}), tensor("l.1.mlp", {5}),
                        tensor("l.3.attention", {4})}),
              ElementsAre(HasSubstr("l.3.attention: no rule uses it")));
}

TEST(Positions, DependOnNoOtherCapture) {
  const auto refusal = [](const std::string& to, const std::string& from) {
    return refusal_of([&] {
      map_of("[[map]]\nto = \"" + to + "\"\nfrom = \"" + from + "\"\nrange = { j = 2 }\n");
    });
  };
  EXPECT_THAT(refusal("a.{2*i+j}", "b.{i}.{j}"),
              HasSubstr("line 1: the number of {i} in 'a.{2*i+j}' depends on 'j', which is a "
                        "capture"));
}

}  // namespace
}  // namespace reshardfs::modelmap::testing::positions_tests
