// SPDX-License-Identifier: Apache-2.0
#include "vfs/open_handles.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "unit/vfs/sized_file.h"

namespace reshardfs {
namespace {

using testing_vfs::SizedFile;
using Files = OpenHandles<VirtualFile>;

TEST(OpenHandles, KeepEachUntilItIsRemoved) {
  Files files;
  const auto file = std::make_shared<SizedFile>(5);
  const std::weak_ptr<const VirtualFile> other = [&] {
    auto made = std::make_shared<SizedFile>(7);
    EXPECT_EQ(files.add(made), 1U);
    return made;
  }();
  const std::uint64_t number = files.add(file);
  EXPECT_NE(number, 1U);
  EXPECT_EQ(files.find(number), file);
  EXPECT_EQ(files.find(1)->size(), 7U);
  EXPECT_FALSE(other.expired());
  files.remove(1);
  EXPECT_TRUE(other.expired());
  EXPECT_EQ(files.find(1), nullptr);
  EXPECT_EQ(files.find(number), file);
}

TEST(OpenHandles, NothingHasTheNumberOfNothing) {
  Files files;
  EXPECT_EQ(files.add(nullptr), Files::kNone);
  EXPECT_EQ(files.find(Files::kNone), nullptr);
  EXPECT_EQ(files.find(17), nullptr);
  files.remove(Files::kNone);
  files.remove(17);
  files.replace(Files::kNone, std::make_shared<SizedFile>(1));
  files.replace(17, std::make_shared<SizedFile>(1));
  EXPECT_EQ(files.find(17), nullptr);
}

TEST(OpenHandles, WhatIsReplacedIsFreed) {
  Files files;
  std::weak_ptr<const VirtualFile> first;
  const std::uint64_t number = [&] {
    const auto file = std::make_shared<SizedFile>(1);
    first = file;
    return files.add(file);
  }();
  const auto second = std::make_shared<SizedFile>(2);
  files.replace(number, second);
  EXPECT_EQ(files.find(number), second);
  EXPECT_TRUE(first.expired());
}

TEST(OpenHandles, AFoundOneOutlivesItsRemoval) {
  Files files;
  const std::uint64_t number = files.add(std::make_shared<SizedFile>(9));
  const auto found = files.find(number);
  files.remove(number);
  EXPECT_EQ(found->size(), 9U);
}

TEST(OpenHandles, NumbersAreNeverGivenTwice) {
  Files files;
  std::vector<std::vector<std::uint64_t>> numbers(4);
  std::vector<std::thread> threads;
  for (std::vector<std::uint64_t>& mine : numbers) {
    threads.emplace_back([&files, &mine] {
      for (int i = 0; i < 1000; ++i) {
        mine.push_back(files.add(std::make_shared<SizedFile>(1)));
        files.remove(mine.back());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  for (const auto& mine : numbers) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 4000U);
}

}  // namespace
}  // namespace reshardfs
