// SPDX-License-Identifier: Apache-2.0
#include "plan/target/file_image.h"

#include <gtest/gtest.h>

#include "support/checkpoint.h"
#include "support/errors.h"

namespace reshardfs::file_image_tests {
namespace {

using test::counting_bytes;

/// A file without a format: its bytes are told, and where parameters stand in it.
struct PlainFile {
  RankFile file;
  std::vector<TensorEntry> entries;

  explicit PlainFile(std::string bytes) {
    file.source = std::make_shared<test::MemorySource>(std::move(bytes), "plain");
    entries.reserve(8);
  }
  /// A parameter of single bytes, from `offset` on.
  ShownElements bytes(std::uint64_t offset, std::uint64_t length) {
    TensorEntry& entry = entries.emplace_back();
    entry.name = "p" + std::to_string(entries.size());
    entry.dtype = DType::kUInt8;
    entry.shape = {static_cast<std::int64_t>(length)};
    entry.extents = {{offset, length}};
    entry.content_bytes = length;
    return ShownElements(ShownTensor(single_cell_grid(Holding{&file, &entry})), DType::kUInt8);
  }
};

std::string read(const FileImage& image, std::uint64_t offset, std::size_t count) {
  std::string out(count, '?');
  read_checked(
      [&](ReadBatch& batch) { image.read(offset, std::as_writable_bytes(std::span(out)), batch); });
  return out;
}

TEST(FileImage, IsItsPiecesOneAfterTheOther) {
  const std::string stored = counting_bytes(30, 100);
  PlainFile plain(stored);
  FileImage image;
  image.append_literal("head");
  image.append(plain.bytes(3, 7));
  image.append_literal("");
  image.append_literal("ab");
  const std::size_t view = image.add_view(plain.bytes(10, 20));
  image.append_range(view, 5, 6);
  image.append_range(view, 0, 0);
  image.append_range(view, 0, 5);
  image.append_literal("tail");
  const std::string whole =
      "head" + stored.substr(3, 7) + "ab" + stored.substr(15, 6) + stored.substr(10, 5) + "tail";
  ASSERT_EQ(image.size(), whole.size());
  for (std::size_t offset = 0; offset <= whole.size(); ++offset) {
    for (std::size_t count = 0; offset + count <= whole.size(); ++count) {
      ASSERT_EQ(read(image, offset, count), whole.substr(offset, count));
    }
  }
}

TEST(FileImage, IsNotReadBehindItsEnd) {
  FileImage image;
  EXPECT_EQ(read(image, 0, 0), "");
  image.append_literal("abc");
  EXPECT_EQ(read(image, 3, 0), "");
  test::expect_error(ErrorKind::kBadInput, {"beyond the end of the file"},
                     [&] { read(image, 2, 2); });
  test::expect_error(ErrorKind::kBadInput, {"beyond the end of the file"},
                     [&] { read(image, 4, 0); });
  test::expect_error(ErrorKind::kBadInput, {"beyond the end of the file"},
                     [&] { read(image, UINT64_MAX, 2); });
}

TEST(FileImage, EqualsAFileWithTheSameBytesAtTheSamePlaces) {
  const std::string parameters = counting_bytes(12);
  PlainFile plain("head" + parameters + "tail");
  FileImage image;
  image.append_literal("head");
  image.append(plain.bytes(4, 5));
  image.append(plain.bytes(9, 7));
  image.append_literal("tail");
  EXPECT_EQ(image.equal_source(), plain.file.source);
}

TEST(FileImage, EqualsNoFileWithOtherBytesBetween) {
  PlainFile plain("head" + counting_bytes(12) + "tail");
  for (const auto& [head, tail] : {std::pair("heat", "tail"), {"head", "tali"}}) {
    FileImage image;
    image.append_literal(head);
    image.append(plain.bytes(4, 12));
    image.append_literal(tail);
    EXPECT_EQ(image.equal_source(), nullptr);
  }
}

TEST(FileImage, EqualsNoFileInWhichParametersStandElsewhere) {
  // The second parameter's bytes are those of the first, and it stands behind it.
  PlainFile plain("abab");
  FileImage image;
  image.append(plain.bytes(2, 2));
  image.append(plain.bytes(0, 2));
  EXPECT_EQ(read(image, 0, 4), "abab");
  EXPECT_EQ(image.equal_source(), nullptr);
}

TEST(FileImage, EqualsNoLongerFile) {
  PlainFile plain("abcd");
  FileImage image;
  image.append(plain.bytes(0, 3));
  EXPECT_EQ(image.equal_source(), nullptr);
}

TEST(FileImage, EqualsNoneOfSeveralFiles) {
  PlainFile a("abcd");
  PlainFile b("abcd");
  FileImage image;
  image.append(a.bytes(0, 2));
  image.append(b.bytes(2, 2));
  EXPECT_EQ(image.equal_source(), nullptr);
}

TEST(FileImage, EqualsNoFileWithoutParameters) {
  FileImage image;
  image.append_literal("abcd");
  EXPECT_EQ(image.equal_source(), nullptr);
}

TEST(FileImage, ComparesLongLiteralsToTheirLastByte) {
  const std::string head = counting_bytes(200'000);
  PlainFile plain(head + "p");
  FileImage same;
  same.append_literal(head);
  same.append(plain.bytes(200'000, 1));
  EXPECT_EQ(same.equal_source(), plain.file.source);
  for (const std::size_t place : {0U, 65'535U, 65'536U, 150'000U, 199'999U}) {
    std::string other = head;
    other[place] = static_cast<char>(other[place] + 1);
    FileImage image;
    image.append_literal(other);
    image.append(plain.bytes(200'000, 1));
    EXPECT_EQ(image.equal_source(), nullptr) << place;
  }
}

TEST(FileImage, EqualsNoFileThatHasChanged) {
  PlainFile plain("head1");
  plain.file.source = std::make_shared<test::ChangingSource>(plain.file.source, 1);
  FileImage image;
  image.append_literal("head");
  image.append(plain.bytes(4, 1));
  test::expect_error(ErrorKind::kChanged, {"plain"}, [&] { image.equal_source(); });
}

}  // namespace
}  // namespace reshardfs::file_image_tests
