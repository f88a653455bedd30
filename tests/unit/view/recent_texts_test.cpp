// SPDX-License-Identifier: Apache-2.0
#include "view/recent_texts.h"

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "view/text_file.h"

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
