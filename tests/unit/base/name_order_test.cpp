// SPDX-License-Identifier: Apache-2.0
#include "base/text/name_order.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Names = std::vector<std::string>;

std::vector<std::uint32_t> order_of(const Names& names) {
  return order_by_name(names.size(), [&](std::size_t i) { return std::string_view(names[i]); });
}

/// As the standard library sorts them.
std::vector<std::uint32_t> expected_order(const Names& names) {
  std::vector<std::uint32_t> order(names.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return names[a] < names[b]; });
  return order;
}

TEST(NameOrder, IsThatOfBytes) {
  EXPECT_THAT(order_of({}), IsEmpty());
  EXPECT_THAT(order_of({"b", "a"}), ElementsAre(1, 0));
  EXPECT_THAT(order_of({"\xff", "a", "\x7f"}), ElementsAre(1, 2, 0));
  EXPECT_THAT(order_of({"b", "", "a", "b"}), ElementsAre(1, 2, 0, 3));
}

TEST(NameOrder, HasBeginningsBeforeWhatTheyBegin) {
  Names names(1, "weight");
  for (int i = 0; i < 40; ++i) names.push_back(names.back() + "s");
  std::reverse(names.begin(), names.end());
  EXPECT_EQ(order_of(names), expected_order(names));
}

TEST(NameOrder, TellsNamesThatStandTwice) {
  EXPECT_TRUE(are_distinct({}));
  std::mt19937 random(20251128);  // NOLINT(cert-msc51-cpp): the same each time
  for (int round = 0; round < 500; ++round) {
    Names names(random() % 40);
    for (std::string& name : names)
      name = std::string(random() % 3, 'a') + static_cast<char>('a' + random() % 26);
    const bool expected = std::set<std::string>(names.begin(), names.end()).size() == names.size();
    EXPECT_EQ(are_distinct(std::vector<std::string_view>(names.begin(), names.end())), expected);
  }
}

TEST(NameOrder, TakesZerosForBytes) {
  Names names;
  for (std::size_t zeros = 20; zeros-- > 0;) {
    names.push_back("abc" + std::string(zeros, '\0'));
    names.push_back("abc" + std::string(zeros, '\0') + 'x');
  }
  EXPECT_EQ(order_of(names), expected_order(names));
}

TEST(NameOrder, IsThatOfTheStandardLibraryForRandomNames) {
  std::mt19937 random(20251127);  // NOLINT(cert-msc51-cpp): the same each time
  constexpr std::string_view kLetters("a.\0\xff", 4);
  for (int round = 0; round < 200; ++round) {
    Names names(random() % 300);
    const std::size_t longest = 1 + random() % 40;
    const std::size_t letters = 1 + random() % kLetters.size();
    for (std::string& name : names) {
      name = round % 2 == 0 ? "model.layers." : "";
      for (std::size_t left = random() % longest; left > 0; --left) {
        name += kLetters[random() % letters];
      }
    }
    ASSERT_EQ(order_of(names), expected_order(names)) << "round " << round;
  }
}

// Groups of so many are sorted by several threads.
TEST(NameOrder, IsTheSameForAsManyNamesAsALargeModelHas) {
  Names names;
  for (int layer = 0; layer < 150; ++layer) {
    for (int expert = 0; expert < 128; ++expert) {
      for (const char* state : {"exp_avg_sq.", "", "exp_avg."}) {
        names.push_back(state + ("model.layers." + std::to_string(layer) + ".mlp.experts." +
                                 std::to_string(expert) + ".up_proj.weight"));
      }
    }
  }
  names.push_back("model.layers.");
  names.push_back(names.front());
  std::mt19937 random(20261127);  // NOLINT(cert-msc51-cpp): the same each time
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(order_of(names), expected_order(names)) << "round " << round;
    std::shuffle(names.begin(), names.end(), random);
  }
}

}  // namespace
}  // namespace reshardfs
