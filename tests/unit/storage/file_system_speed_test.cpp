// SPDX-License-Identifier: Apache-2.0
#include "storage/local/file_system_speed.h"

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "support/in_child.h"

namespace reshardfs {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test::in_child;

TEST(FileSystemSpeed, IsSlowAfterSomeLateReads) {
  FileSystemSpeed speed;
  EXPECT_FALSE(speed.is_slow());
  for (int i = 0; i < 1000; ++i) speed.note(4096, std::chrono::microseconds(900));
  speed.note(4096, milliseconds(20));
  EXPECT_FALSE(speed.is_slow());
  for (int i = 0; i < 3; ++i) {
    // The kernel had more of it in its cache than was asked for.
    for (int j = 0; j < 10; ++j) speed.note(4096, std::chrono::microseconds(3));
    speed.note(4096, milliseconds(20));
  }
  speed.note(4096, milliseconds(20));
  EXPECT_TRUE(speed.is_slow());
}

TEST(FileSystemSpeed, TakesLongReadsToBeLongerOnTheirWay) {
  FileSystemSpeed speed;
  for (int i = 0; i < 100; ++i) speed.note(8 << 20, milliseconds(16));
  EXPECT_FALSE(speed.is_slow());
}

TEST(FileSystemSpeed, IsNotSlowForever) {
  FileSystemSpeed speed;
  for (int i = 0; i < 100; ++i) speed.note(4096, milliseconds(20));
  for (int i = 0; i < 100; ++i) speed.note(4096, std::chrono::microseconds(3));
  EXPECT_TRUE(speed.is_slow());
  for (int i = 0; i < 1000; ++i) speed.note(4096, std::chrono::microseconds(3));
  EXPECT_FALSE(speed.is_slow());
}

TEST(FileSystemSpeed, KnowsOfDirectReadsThatAreStuck) {
  FileSystemSpeed speed;
  const auto now = FileSystemSpeed::Clock::now();
  {
    const FileSystemSpeed::DirectRead read(speed);
    speed.look(now);
    EXPECT_FALSE(speed.is_stuck());
    speed.look(now + hours(1));
    EXPECT_TRUE(speed.is_stuck());
    for (int i = 0; i < 100; ++i) speed.note(1, milliseconds(200));
    speed.look(now + milliseconds(1000));
    EXPECT_FALSE(speed.is_stuck()) << "it usually takes long";
    speed.look(now + hours(1));
    EXPECT_TRUE(speed.is_stuck());
  }
  speed.look(now + hours(1));
  EXPECT_FALSE(speed.is_stuck());
}

TEST(FileSystemSpeed, FindsAPlaceForManyDirectReads) {
  FileSystemSpeed speed;
  std::vector<std::unique_ptr<FileSystemSpeed::DirectRead>> reads;
  for (int i = 0; i < 200; ++i) {
    reads.push_back(std::make_unique<FileSystemSpeed::DirectRead>(speed));
  }
  const auto later = FileSystemSpeed::Clock::now() + hours(1);
  speed.look(later);
  EXPECT_TRUE(speed.is_stuck());
  reads.clear();
  speed.look(later);
  EXPECT_FALSE(speed.is_stuck());
  // In each of the places: what lies at the same address takes the same one.
  std::array<std::optional<FileSystemSpeed::DirectRead>, 64> all;
  for (const auto& last : all) {
    for (auto& read : all) read.emplace(speed);
    for (auto& read : all) {
      if (&read != &last) read.reset();
    }
    speed.look(later);
    EXPECT_TRUE(speed.is_stuck()) << &last - all.data();
    for (auto& read : all) read.reset();
  }
}

TEST(FileSystemSpeed, ReadsLookForOthersThatAreStuck) {
  FileSystemSpeed speed;
  const FileSystemSpeed::DirectRead stuck(speed);
  while (!speed.is_stuck()) const FileSystemSpeed::DirectRead other(speed);
}

TEST(FileSystemSpeed, TellsWhetherAnyIsStuck) {
  const auto one = FileSystemSpeed::of(12347);
  EXPECT_FALSE(FileSystemSpeed::is_any_stuck(FileSystemSpeed::Clock::now()));
  const FileSystemSpeed::DirectRead read(*one);
  EXPECT_TRUE(FileSystemSpeed::is_any_stuck(FileSystemSpeed::Clock::now() + hours(1)));
  EXPECT_TRUE(one->is_stuck());
  EXPECT_FALSE(FileSystemSpeed::of(12348)->is_stuck());
}

TEST(FileSystemSpeed, WhatTheProcessBeforeAForkReadIsNotStuck) {
  FileSystemSpeed speed;
  const FileSystemSpeed::DirectRead read(speed);
  speed.add_stuck(1);
  const auto later = FileSystemSpeed::Clock::now() + hours(1);
  in_child([&] {
    EXPECT_FALSE(speed.is_stuck());
    speed.look(later);
    EXPECT_FALSE(speed.is_stuck());
    const FileSystemSpeed::DirectRead own(speed);
    speed.look(later);
    EXPECT_TRUE(speed.is_stuck());
  });
  in_child([&] {
    EXPECT_FALSE(FileSystemSpeed::is_any_stuck(later));
    speed.add_stuck(1);
    EXPECT_TRUE(speed.is_stuck());
    speed.add_stuck(-1);
    EXPECT_FALSE(speed.is_stuck());
  });
  EXPECT_TRUE(speed.is_stuck());
}

TEST(FileSystemSpeed, IsOneForAllFilesOfADevice) {
  const auto first = FileSystemSpeed::of(12345);
  EXPECT_EQ(FileSystemSpeed::of(12345), first);
  EXPECT_NE(FileSystemSpeed::of(12346), first);
}

}  // namespace
}  // namespace reshardfs
