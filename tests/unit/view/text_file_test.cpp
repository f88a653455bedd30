// SPDX-License-Identifier: Apache-2.0
#include "view/text_file.h"

#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

std::string contents(const VirtualFile& file) {
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

/// Texts "1", "22", "333" ...
std::function<std::string()> growing() {
  return [made = 0]() mutable {
    ++made;
    return std::string(static_cast<std::size_t>(made), static_cast<char>('0' + made));
  };
}

TEST(PaddedFile, AllTextsHaveTheSizeThatIsTold) {
  const PaddedFile file(growing(), 4);
  EXPECT_EQ(file.size(), 0U);
  EXPECT_EQ(file.stat_size(), 5U);  // made once, to find out
  EXPECT_EQ(contents(*file.snapshot()), "22\n\n\n");
  EXPECT_EQ(contents(*file.snapshot()), "333\n\n");
  EXPECT_EQ(file.stat_size(), 5U);
}

TEST(PaddedFile, TheFirstOpeningFindsTheSize) {
  const PaddedFile file(growing(), 2);
  EXPECT_EQ(contents(*file.snapshot()), "1\n\n");
  EXPECT_EQ(file.stat_size(), 3U);
  EXPECT_EQ(contents(*file.snapshot()), "22\n");
}

TEST(PaddedFile, NothingIsCutOff) {
  const PaddedFile file(growing(), 0);
  EXPECT_EQ(file.stat_size(), 1U);
  EXPECT_EQ(contents(*file.snapshot()), "22");
}

TEST(PaddedFile, AFailureIsNotRemembered) {
  bool fails = true;
  const PaddedFile file(
      [&]() -> std::string {
        if (fails) throw Error(ErrorKind::kIo, "no");
        return "text";
      },
      1);
  EXPECT_THROW(file.stat_size(), Error);
  fails = false;
  EXPECT_EQ(file.stat_size(), 5U);
}

TEST(LiveFile, HasNoSize) {
  const LiveFile file(growing());
  EXPECT_EQ(file.stat_size(), 0U);
  EXPECT_EQ(contents(*file.snapshot()), "1");
  EXPECT_EQ(contents(*file.snapshot()), "22");
}

}  // namespace
}  // namespace reshardfs
