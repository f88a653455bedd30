// SPDX-License-Identifier: Apache-2.0
#include "base/text/name_groups.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using testing::ElementsAre;
using Names = std::vector<std::string>;

TEST(NameGroups, JoinNamesThatDifferInNumbers) {
  EXPECT_THAT(group_names({"layers.0.w", "norm", "layers.1.w", "layers.2.w", "layers.7.w"}),
              ElementsAre("layers.{0..2,7}.w", "norm"));
  EXPECT_THAT(group_names({"a.10", "a.9"}), ElementsAre("a.{9,10}"));
  EXPECT_THAT(group_names({"a.5"}), ElementsAre("a.5"));
  EXPECT_THAT(group_names(std::vector<std::string>()), ElementsAre());
  EXPECT_THAT(group_names({"x", "x"}), ElementsAre("x"));
}

TEST(NameGroups, JoinSeveralNumbersWhereAllCombinationsAreThere) {
  Names names;
  for (int layer = 0; layer < 3; ++layer) {
    for (int expert = 0; expert < 4; ++expert) {
      names.push_back("l." + std::to_string(layer) + ".e." + std::to_string(expert));
    }
  }
  EXPECT_THAT(group_names(names), ElementsAre("l.{0..2}.e.{0..3}"));
  names.pop_back();
  EXPECT_THAT(group_names(names), ElementsAre("l.{0,1}.e.{0..3}", "l.2.e.{0..2}"));
}

TEST(NameGroups, LeaveNumbersAloneThatWouldNotComeBack) {
  EXPECT_THAT(group_names({"part01", "part02"}), ElementsAre("part01", "part02"));
  EXPECT_THAT(group_names({"n1234567890123456789", "n1234567890123456780"}),
              ElementsAre("n1234567890123456789", "n1234567890123456780"));
}

/// The names that a group stands for.
Names expand(const std::string& group) {
  const std::size_t open = group.find('{');
  if (open == std::string::npos) return {group};
  const std::size_t close = group.find('}', open);
  Names names;
  std::size_t at = open + 1;
  while (at < close) {
    const std::size_t end = std::min(group.find(',', at), close);
    const std::string item = group.substr(at, end - at);
    const std::size_t dots = item.find("..");
    const int first = std::stoi(item);
    const int last = dots == std::string::npos ? first : std::stoi(item.substr(dots + 2));
    for (int value = first; value <= last; ++value) {
      const std::string name =
          group.substr(0, open) + std::to_string(value) + group.substr(close + 1);
      for (const std::string& inner : expand(name)) names.push_back(inner);
    }
    at = end + 1;
  }
  return names;
}

TEST(NameGroups, StandForTheirNamesAndNoOthers) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::set<std::string> names;
    const auto count = random() % 30;
    for (auto i = count; i > 0; --i) {
      names.insert("l" + std::to_string(random() % 4) + ".e" + std::to_string(random() % 4) +
                   (random() % 3 == 0 ? ".b" : ".w" + std::to_string(random() % 3)));
    }
    Names back;
    for (const std::string& group : group_names({names.begin(), names.end()})) {
      for (const std::string& name : expand(group)) back.push_back(name);
    }
    std::sort(back.begin(), back.end());
    EXPECT_EQ(back, Names(names.begin(), names.end()));
  }
}

}  // namespace
namespace {

using ::testing::ElementsAre;

TEST(EqualReasons, AreToldOnce) {
  EXPECT_THAT(names_by_reason({}), ElementsAre());
  EXPECT_THAT(names_by_reason({{"a", "it is cut off"}}), ElementsAre("'a' (it is cut off)"));
  EXPECT_THAT(names_by_reason({{"l.0.w", "one"}, {"b", "two"}, {"l.1.w", "one"}, {"c", "one"}}),
              ElementsAre("'l.{0,1}.w', 'c' (one)", "'b' (two)"));
}

}  // namespace
}  // namespace reshardfs
