// SPDX-License-Identifier: Apache-2.0
#include "view/files/text_file.h"

#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

std::string contents(const VirtualFile& file) {
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(SharedText, IsItsPiecesOneAfterTheOther) {
  const auto owner = std::make_shared<const std::string>("0123456789");
  SharedText text(std::string("ab"));
  text.append(owner, std::string_view(*owner).substr(3, 4));
  text.append(std::string());
  text.append(owner, *owner);
  const TextFile file(text);
  const std::string whole = "ab34560123456789";
  ASSERT_EQ(contents(file), whole);
  for (std::size_t offset = 0; offset <= whole.size(); ++offset) {
    for (std::size_t count = 0; offset + count <= whole.size(); ++count) {
      std::string out(count, '?');
      file.read_at(offset, std::as_writable_bytes(std::span(out)));
      ASSERT_EQ(out, whole.substr(offset, count));
    }
  }
  std::string out(2, '?');
  EXPECT_THROW(file.read_at(15, std::as_writable_bytes(std::span(out))), Error);
  EXPECT_EQ(contents(TextFile(SharedText())), "");
}

TEST(SharedText, KeepsWhatItSharesAndNoCopyOfIt) {
  auto owner = std::make_shared<const std::string>("shared");
  const std::weak_ptr<const std::string> seen = owner;
  {
    const LiveFile file([&] {
      SharedText text(std::string("own "));
      text.append(owner, *owner);
      return text;
    });
    std::vector<std::shared_ptr<const VirtualFile>> opened;
    for (int i = 0; i < 100; ++i) opened.push_back(file.snapshot());
    EXPECT_EQ(seen.use_count(), 101);
    owner.reset();
    for (const auto& snapshot : opened) EXPECT_EQ(contents(*snapshot), "own shared");
  }
  EXPECT_TRUE(seen.expired());
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
