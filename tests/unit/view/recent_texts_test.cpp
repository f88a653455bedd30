// SPDX-License-Identifier: Apache-2.0
#include "view/files/recent_texts.h"

#include <array>
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "view/files/text_file.h"

namespace reshardfs {
namespace {

/// Asks for the text of an owner, and tells how often it was made.
class Counted {
 public:
  explicit Counted(std::size_t bytes) : bytes_(bytes) {}

  int made_after_get(RecentTexts& texts) {
    const auto text = texts.get(this, [this] {
      ++made_;
      return std::string(bytes_, 'x');
    });
    EXPECT_EQ(text->size(), bytes_);
    return made_;
  }

 private:
  std::size_t bytes_;
  int made_ = 0;
};

TEST(RecentTexts, KeepWhatWasReadLast) {
  RecentTexts texts(100);
  Counted a(40);
  Counted b(40);
  Counted c(40);
  EXPECT_EQ(a.made_after_get(texts), 1);
  EXPECT_EQ(b.made_after_get(texts), 1);
  EXPECT_EQ(a.made_after_get(texts), 1);
  EXPECT_EQ(c.made_after_get(texts), 1);  // pushes b out, which was read before a
  EXPECT_EQ(a.made_after_get(texts), 1);
  EXPECT_EQ(b.made_after_get(texts), 2);
}

TEST(RecentTexts, KeepOneThatIsLongerThanTheLimit) {
  RecentTexts texts(100);
  Counted small(10);
  Counted large(1000);
  EXPECT_EQ(small.made_after_get(texts), 1);
  EXPECT_EQ(large.made_after_get(texts), 1);
  EXPECT_EQ(large.made_after_get(texts), 1);
  EXPECT_EQ(small.made_after_get(texts), 2);
  EXPECT_EQ(large.made_after_get(texts), 2);
}

TEST(RecentTexts, ForgetAnOwner) {
  RecentTexts texts(100);
  Counted a(40);
  EXPECT_EQ(a.made_after_get(texts), 1);
  texts.forget(&a);
  EXPECT_EQ(a.made_after_get(texts), 2);
}

TEST(RecentTexts, WhatIsInUseIsNotMadeAgain) {
  RecentTexts texts(100);
  const int owner = 0;
  const auto make = [] { return std::string(1000, 'x'); };
  auto in_use = texts.get(&owner, make);
  Counted others(1000);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(others.made_after_get(texts), i);  // pushed out by the one in use
    EXPECT_EQ(texts.get(&owner, make), in_use);
  }
  const std::weak_ptr<const std::string> used = in_use;
  in_use.reset();
  EXPECT_EQ(others.made_after_get(texts), 4);
  EXPECT_TRUE(used.expired());
}

TEST(RecentTexts, ForgetAnOwnerWhoseTextIsInUse) {
  RecentTexts texts(100);
  const int owner = 0;
  const auto old = texts.get(&owner, [] { return std::string("old"); });
  texts.forget(&owner);
  EXPECT_EQ(*texts.get(&owner, [] { return std::string("new"); }), "new");
  EXPECT_EQ(*old, "old");
}

TEST(RecentTexts, OneOfSeveralThreadsMakesIt) {
  constexpr int kThreads = 8;
  RecentTexts texts(100);
  const int owner = 0;
  std::latch all_ask(kThreads);
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  std::array<std::shared_ptr<const std::string>, kThreads> got;
  for (auto& own : got) {
    threads.emplace_back([&] {
      all_ask.arrive_and_wait();
      own = texts.get(&owner, [&made] {
        ++made;
        return std::string(1 << 20, 'x');
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
  for (const auto& own : got) EXPECT_EQ(own, got.front());
}

TEST(RecentTexts, AFailureIsNotRemembered) {
  RecentTexts texts(100);
  const int owner = 0;
  EXPECT_THROW(texts.get(&owner, []() -> std::string { throw Error(ErrorKind::kIo, "no"); }),
               Error);
  EXPECT_EQ(*texts.get(&owner, [] { return std::string("text"); }), "text");
}

TEST(MadeFile, HasTheTextThatIsMade) {
  const MadeFile file([] { return std::string("abcdef"); });
  EXPECT_EQ(file.size(), 6U);
  std::vector<std::byte> out(3);
  file.read_at(2, out);
  EXPECT_EQ(std::to_integer<char>(out[0]), 'c');
  EXPECT_EQ(std::to_integer<char>(out[2]), 'e');
  EXPECT_THROW(file.read_at(4, out), Error);
}

}  // namespace
}  // namespace reshardfs
