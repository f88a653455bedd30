// SPDX-License-Identifier: Apache-2.0
/// Strategy rules that are cut anywhere, or have any bit flipped. A text has no redundancy: another
/// glob is another rule, and takes any number of parameters. So what is not refused must give what
/// the naive model gives for the layouts that the damaged rules state.
#include <gtest/gtest.h>

#include "strategy/rules/rules_apply.h"
#include "strategy_oracle.h"
#include "tally.h"

namespace reshardfs::damage {
namespace {

constexpr const char* kRules = R"(# rows and columns
[devices]
axes = ["dp=2", "tp=2"]
unmatched = "error"

[[rule]]
match = ["layers.*.w"]
cut = ["tp", ""]
optimizer = 2

[[rule]]
match = "up"
cut = ["", ["dp", "tp"]]

[[rule]]
match = ["e*"]
cut = ["tp"]
uneven = [[4, 3]]

[[rule]]
match = "b"
cut = ["dp"]
uneven = "balanced"
)";

const std::map<std::string, Shape> kShapes{
    {"layers.0.w", {8, 2}}, {"layers.1.w", {4, 3}}, {"up", {3, 8}}, {"embed", {7}}, {"b", {5}}};

Strategy apply(const std::string& text) {
  std::vector<NamedShape> parameters;
  for (const auto& [name, shape] : kShapes) parameters.push_back({name, shape});
  return apply_rules(read_rules("rules.toml", text), parameters);
}

const CutModel& model() {
  static const CutModel made(apply(kRules), kShapes);
  return made;
}

TEST(DamagedRules, EveryCutAndEveryFlippedBitIsRefusedOrGivesWhatItStates) {
  const std::set<std::string> kinds{"layout", "several facts"};
  Tally cuts_of_source("cuts of rules, of the source", kinds);
  Tally cuts_of_target("cuts of rules, of the target", kinds);
  each_cut(kRules, [&](const std::string& cut, const std::string& where) {
    cuts_of_source.add(where, [&] { return model().kind_as_source(apply(cut)); });
    cuts_of_target.add(where, [&] { return model().kind_as_target(apply(cut)); });
  });
  Tally source("bits of rules, of the source", kinds);
  Tally target("bits of rules, of the target", kinds);
  each_flip(kRules, {}, [&](const auto& flipped, const auto& where, std::size_t) {
    source.add(where, [&] { return model().kind_as_source(apply(flipped)); });
    target.add(where, [&] { return model().kind_as_target(apply(flipped)); });
  });
  EXPECT_GT(source.refused(), source.total() / 2);
}

}  // namespace
}  // namespace reshardfs::damage
