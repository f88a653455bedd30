// SPDX-License-Identifier: Apache-2.0
#include "base/text/name_table.h"

#include <string>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

struct NameIn {
  const std::vector<std::string>* names;
  std::string_view operator()(std::uint32_t number) const { return (*names)[number]; }
};

TEST(NameTable, KnowsTheFirstNumberOfEachName) {
  std::vector<std::string> names{"a", "", "b", "a"};
  NameTable<NameIn> table(names.size(), {&names});
  EXPECT_EQ(table.find("a"), std::nullopt);
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    const std::pair<std::uint32_t, bool> expected{i == 3 ? 0 : i, i != 3};
    EXPECT_EQ(table.try_emplace(names[i], i), expected) << i;
  }
  EXPECT_EQ(table.find("a"), 0U);
  EXPECT_EQ(table.find(""), 1U);
  EXPECT_EQ(table.find("b"), 2U);
  EXPECT_EQ(table.find("c"), std::nullopt);
}

TEST(NameTable, HasAsManyNamesAsWereAnnounced) {
  for (const std::size_t count : {0U, 1U, 2U, 1000U, 100'000U}) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back("layers." + std::to_string(i) + ".w");
    NameTable<NameIn> table(count, {&names});
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(table.try_emplace(names[i], i).second) << i;
    }
    for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(table.find(names[i]), i);
    EXPECT_EQ(table.find("layers.-1.w"), std::nullopt);
  }
}

}  // namespace
}  // namespace reshardfs
