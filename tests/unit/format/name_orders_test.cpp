// SPDX-License-Identifier: Apache-2.0
#include "format/index/name_orders.h"

#include <gtest/gtest.h>

#include "format/ckpt/ckpt.h"
#include "support/errors.h"
#include "support/sources.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

TEST(NameOrders, KeepTheOrderOnceForFilesWithTheSameNames) {
  NameOrders orders;
  const auto read = [&](const std::string& file) {
    auto index =
        std::make_shared<const FileIndex>(ckpt::read_index(test::MemorySource(file), &orders));
    orders.add(index);
    return index;
  };
  const std::string b = test::small_record("b");
  const auto first = read(b + test::small_record("a"));
  const auto same = read(test::record("b", {2}, "Int8", "xy") + test::small_record("a"));
  EXPECT_EQ(same->name_order(), first->name_order());
  EXPECT_EQ(same->find("b"), &same->entries()[0]);
  EXPECT_EQ(same->find("b")->shape, Shape{2});
  for (const std::string& other :
       {test::small_record("a") + b, test::small_record("c") + test::small_record("a"),
        test::small_record("a"), b + test::small_record("c") + test::small_record("a")}) {
    const auto index = read(other);
    EXPECT_NE(index->name_order(), first->name_order());
    EXPECT_NE(index->find("a"), nullptr);
  }
  EXPECT_EQ(FileIndex({}, {&orders, {}}).find("a"), nullptr);
}

TEST(NameOrders, DoNotHideARepeatedName) {
  NameOrders orders;
  const std::string a = test::small_record("a");
  orders.add(std::make_shared<const FileIndex>(
      ckpt::read_index(test::MemorySource(test::small_record("b") + a))));
  test::expect_error(ErrorKind::kBadInput, {"'a'", "appears twice"},
                     [&] { ckpt::read_index(test::MemorySource(a + a), &orders); });
}

}  // namespace
}  // namespace reshardfs
