// SPDX-License-Identifier: Apache-2.0
/// Rules written as MindSpore's strategy files.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout/slicing.h"
#include "rules_samples.h"

namespace reshardfs::testing {
namespace {

Strategy by_rule(const std::string& rule, const Shape& shape) {
  return rules_of(with_rule("match = 'w'\n" + rule)).apply({{"w", shape}});
}

/// What a rule gives must mean the same after writing and reading it.
void expect_survives(const std::string& rule, const Shape& shape) {
  SCOPED_TRACE(rule);
  const TemporaryDirectory directory;
  const Strategy strategy = by_rule(rule, shape);
  const Slicing before(strategy.stage(0).at("w"), shape);
  for (const auto& path : {directory.write("s.ckpt", to_protobuf(strategy)),
                           directory.write("s.json", to_json(strategy))}) {
    const Slicing after(Strategy::load(path).stage(0).at("w"), shape);
    ASSERT_EQ(after.devices(), before.devices());
    for (std::int64_t rank = 0; rank < before.devices(); ++rank) {
      EXPECT_EQ(after.parts_of(rank), before.parts_of(rank)) << path << " rank " << rank;
      EXPECT_EQ(after.slice_shape(rank), before.slice_shape(rank)) << path << " rank " << rank;
    }
  }
}

TEST(RulesConversion, KeepsWhatMindSporeCanSay) {
  expect_survives("", {8, 8});
  expect_survives("cut = ['tp', 'dp']", {8, 8});
  expect_survives("cut = [['tp', 'dp'], '']", {8, 8});
  expect_survives("cut = ['', 'tp']\noptimizer = 'all'", {8, 8});
  expect_survives("cut = ['tp']\nfield = 3\n", {24, 2});
  expect_survives("cut = ['tp']\nuneven = [[5, 3, 2, 1]]", {11, 2});
  expect_survives("cut = ['tp', 'dp']\nuneven = [[5, 3, 2, 1], '']", {11, 2});
  expect_survives("cut = ['tp']\nuneven = [[6, 2, 2, 4]]\noptimizer = 2", {14, 2});
}

TEST(RulesConversion, RefusesWhatMindSporeCannotSay) {
  for (const auto& write : {to_protobuf, to_json}) {
    const auto refusal = [&](const std::string& rule, const Shape& shape) {
      try {
        write(by_rule(rule, shape));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
        return std::string(error.what());
      }
      return std::string("accepted");
    };
    EXPECT_EQ(refusal("cut = ['tp']\nuneven = 'balanced'", {9}),
              "parameter 'w': MindSpore's strategy files cannot express that dimension 0 is cut "
              "'balanced'; use the rules file itself");
    EXPECT_EQ(refusal("cut = ['', 'dp']\nuneven = ['', [2, 1]]", {4, 3}),
              "parameter 'w': MindSpore's strategy files cannot express that dimension 1 is cut "
              "unevenly (only dimension 0 can be); use the rules file itself");
  }
}

}  // namespace
}  // namespace reshardfs::testing
