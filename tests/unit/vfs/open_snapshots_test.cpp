// SPDX-License-Identifier: Apache-2.0
#include "vfs/open_snapshots.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "unit/vfs/sized_file.h"

namespace reshardfs {
namespace {

using testing_vfs::SizedFile;

TEST(OpenSnapshots, KeepEachUntilItIsRemoved) {
  OpenSnapshots snapshots;
  const auto file = std::make_shared<SizedFile>(5);
  const std::weak_ptr<const VirtualFile> other = [&] {
    auto made = std::make_shared<SizedFile>(7);
    EXPECT_EQ(snapshots.add(made), 1U);
    return made;
  }();
  const std::uint64_t number = snapshots.add(file);
  EXPECT_NE(number, 1U);
  EXPECT_EQ(snapshots.find(number), file);
  EXPECT_EQ(snapshots.find(1)->size(), 7U);
  EXPECT_FALSE(other.expired());
  snapshots.remove(1);
  EXPECT_TRUE(other.expired());
  EXPECT_EQ(snapshots.find(1), nullptr);
  EXPECT_EQ(snapshots.find(number), file);
}

TEST(OpenSnapshots, NothingHasTheNumberOfNothing) {
  OpenSnapshots snapshots;
  EXPECT_EQ(snapshots.add(nullptr), OpenSnapshots::kNone);
  EXPECT_EQ(snapshots.find(OpenSnapshots::kNone), nullptr);
  EXPECT_EQ(snapshots.find(17), nullptr);
  snapshots.remove(OpenSnapshots::kNone);
  snapshots.remove(17);
}

TEST(OpenSnapshots, AFoundOneOutlivesItsRemoval) {
  OpenSnapshots snapshots;
  const std::uint64_t number = snapshots.add(std::make_shared<SizedFile>(9));
  const auto found = snapshots.find(number);
  snapshots.remove(number);
  EXPECT_EQ(found->size(), 9U);
}

TEST(OpenSnapshots, NumbersAreNeverGivenTwice) {
  OpenSnapshots snapshots;
  std::vector<std::vector<std::uint64_t>> numbers(4);
  std::vector<std::thread> threads;
  for (std::vector<std::uint64_t>& mine : numbers) {
    threads.emplace_back([&snapshots, &mine] {
      for (int i = 0; i < 1000; ++i) {
        mine.push_back(snapshots.add(std::make_shared<SizedFile>(1)));
        snapshots.remove(mine.back());
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
