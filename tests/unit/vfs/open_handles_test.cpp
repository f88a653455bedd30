// SPDX-License-Identifier: Apache-2.0
#include "vfs/open_handles.h"

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
    files.add(1, made);
    return made;
  }();
  files.add(9, file);
  EXPECT_EQ(files.find(9), file);
  EXPECT_EQ(files.find(1)->size(), 7U);
  EXPECT_FALSE(other.expired());
  files.remove(1);
  EXPECT_TRUE(other.expired());
  EXPECT_EQ(files.find(1), nullptr);
  EXPECT_EQ(files.find(9), file);
}

TEST(OpenHandles, NothingHasANumberThatWasNotGiven) {
  Files files;
  EXPECT_EQ(files.find(0), nullptr);
  EXPECT_EQ(files.find(17), nullptr);
  files.remove(17);
  files.confirm(17);
  files.replace(17, std::make_shared<SizedFile>(1));
  EXPECT_EQ(files.find(17), nullptr);
}

TEST(OpenHandles, WhatIsReplacedIsFreed) {
  Files files;
  std::weak_ptr<const VirtualFile> first;
  {
    const auto file = std::make_shared<SizedFile>(1);
    first = file;
    files.add(3, file);
  }
  const auto second = std::make_shared<SizedFile>(2);
  files.replace(3, second);
  EXPECT_EQ(files.find(3), second);
  EXPECT_TRUE(first.expired());
  files.add(3, std::make_shared<SizedFile>(3));
  EXPECT_EQ(files.find(3)->size(), 3U);
}

TEST(OpenHandles, AFoundOneOutlivesItsRemoval) {
  Files files;
  files.add(4, std::make_shared<SizedFile>(9));
  const auto found = files.find(4);
  files.remove(4);
  EXPECT_EQ(found->size(), 9U);
}

TEST(OpenHandles, WhatTheKernelKnowsIsHandedOver) {
  Files files;
  files.add(5, std::make_shared<SizedFile>(1));
  files.add(6, std::make_shared<SizedFile>(2));
  EXPECT_TRUE(files.confirmed().empty());
  files.confirm(6);
  ASSERT_EQ(files.confirmed().size(), 1U);
  EXPECT_EQ(files.confirmed().front().first, 6U);
  Files others;
  others.restore(6, files.confirmed().front().second);
  EXPECT_EQ(others.find(6)->size(), 2U);
  EXPECT_EQ(others.confirmed().size(), 1U);
}

}  // namespace
}  // namespace reshardfs
