// SPDX-License-Identifier: Apache-2.0
#include "format/file_index.h"

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"

namespace reshardfs {
namespace {

TensorEntry named(const std::string& name) {
  TensorEntry entry;
  entry.name = name;
  return entry;
}

TEST(FileIndex, KeepsTheOrderAndFindsEachName) {
  const FileIndex index({named("b"), named("a"), named("c")});
  EXPECT_EQ(index.entries()[0].name, "b");
  for (const std::string name : {"a", "b", "c"}) {
    ASSERT_NE(index.find(name), nullptr);
    EXPECT_EQ(index.find(name)->name, name);
  }
  EXPECT_EQ(index.find("bb"), nullptr);
  EXPECT_EQ(index.find("d"), nullptr);
  EXPECT_EQ(FileIndex({}).find("a"), nullptr);
}

TEST(FileIndex, FindsInACopy) {
  const FileIndex original({named("b"), named("a")});
  const FileIndex copy = original;
  EXPECT_EQ(copy.find("a"), &copy.entries()[1]);
}

TEST(FileIndex, RefusesARepeatedName) {
  test::expect_error(ErrorKind::kBadInput, {"'a'", "twice"}, [] {
    FileIndex({named("a"), named("b"), named("a")});
  });
}

}  // namespace
}  // namespace reshardfs
