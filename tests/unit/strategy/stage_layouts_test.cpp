// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/stage_layouts.h"

#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

Layout layout_of(std::int64_t devices) {
  return {.device_matrix = {devices}, .tensor_map = {{0}}};
}

/// As a map of the standard library has them.
std::map<std::string, Layout> contents_of(const StageLayouts& layouts) {
  std::map<std::string, Layout> contents;
  std::string before;
  for (const auto& [name, layout] : layouts) {
    EXPECT_TRUE(contents.empty() || before < name) << name;
    before = name;
    contents.emplace(name, layout);
  }
  EXPECT_EQ(contents.size(), layouts.size());
  return contents;
}

TEST(StageLayouts, AreSortedByName) {
  const StageLayouts layouts{{"b", layout_of(2)}, {"", layout_of(4)}, {"a", layout_of(2)}};
  EXPECT_EQ(contents_of(layouts),
            (std::map<std::string, Layout>{
                {"", layout_of(4)}, {"a", layout_of(2)}, {"b", layout_of(2)}}));
  EXPECT_EQ(layouts.find("a")->first, "a");
  EXPECT_EQ((++layouts.find("a"))->first, "b");
  EXPECT_EQ(++layouts.find("b"), layouts.end());
  EXPECT_EQ(layouts.find("c"), layouts.end());
  EXPECT_EQ(layouts.at("b"), layout_of(2));
  EXPECT_THROW(layouts.at("c"), std::out_of_range);
  EXPECT_EQ(&layouts.at("a"), &layouts.at("b"));
}

TEST(StageLayouts, AreEmptyAtFirst) {
  const StageLayouts layouts;
  EXPECT_TRUE(layouts.empty());
  EXPECT_EQ(layouts.begin(), layouts.end());
  EXPECT_FALSE(layouts.contains("a"));
  EXPECT_EQ(layouts, StageLayouts());
}

TEST(StageLayouts, ChangeInOneCopyAlone) {
  StageLayouts layouts{{"a", layout_of(2)}};
  const StageLayouts before = layouts;
  layouts.insert_or_assign("a", layout_of(4));
  layouts.try_emplace("b", layout_of(4));
  EXPECT_EQ(contents_of(before), (std::map<std::string, Layout>{{"a", layout_of(2)}}));
  EXPECT_EQ(contents_of(layouts),
            (std::map<std::string, Layout>{{"a", layout_of(4)}, {"b", layout_of(4)}}));
  EXPECT_FALSE(layouts == before);
}

TEST(StageLayouts, AreAMapLikeOthers) {
  std::mt19937 random(20251129);  // NOLINT(cert-msc51-cpp): the same each time
  for (int round = 0; round < 20; ++round) {
    StageLayouts layouts;
    std::map<std::string, Layout> expected;
    // More kinds than are compared with each other.
    const std::uint32_t kinds = round % 2 == 0 ? 3 : 600;
    for (int i = 0; i < 1500; ++i) {
      const std::string name = "w" + std::to_string(random() % 700);
      const Layout layout = layout_of(1 + static_cast<std::int64_t>(random() % kinds));
      if (random() % 2 == 0) {
        const auto [position, is_new] = layouts.try_emplace(name, layout);
        EXPECT_EQ(is_new, expected.try_emplace(name, layout).second);
        EXPECT_EQ(position->first, name);
        EXPECT_EQ(position->second, expected.at(name));
      } else {
        layouts.insert_or_assign(name, layout);
        expected.insert_or_assign(name, layout);
      }
      if (i % 500 == 0) {
        ASSERT_EQ(contents_of(layouts), expected);
      }
    }
    ASSERT_EQ(contents_of(layouts), expected);
    StageLayouts other;
    for (const auto& [name, layout] : expected) other.try_emplace(name, layout);
    ASSERT_EQ(other, layouts);
  }
}

TEST(StageLayouts, AreReadByManyThreads) {
  StageLayouts layouts;
  for (int i = 0; i < 5000; ++i) layouts.try_emplace(std::to_string(i * 7919 % 5000), layout_of(2));
  const StageLayouts& shared = layouts;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&shared] {
      EXPECT_EQ(contents_of(shared).size(), 5000U);
      EXPECT_TRUE(shared.contains("4999"));
    });
  }
}

}  // namespace
}  // namespace reshardfs
