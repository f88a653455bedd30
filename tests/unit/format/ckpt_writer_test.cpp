// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "format/ckpt/ckpt.h"
#include "support/sources.h"
#include "support/wire.h"

namespace reshardfs::ckpt {
namespace {

using test::MemorySource;

TEST(CkptWriter, WritesTheDocumentedExample) {
  const std::string header = record_header("w", DType::kFloat32, {2, 3}, 24);
  EXPECT_EQ(header, std::string("\x0a\x2c\x0a\x01w\x12\x27\x08\x02\x08\x03\x12\x07"
                                "Float32\x1a\x18"));
  const std::string text("\x0a\x16\x0a\x01s\x12\x11\x08\x00\x12\x03str\x1a\x08", 16);
  EXPECT_EQ(record_header("s", DType::kString, {}, 8), text);
}

TEST(CkptWriter, WritesAScalarWithoutDims) {
  EXPECT_EQ(record_header("n", DType::kInt32, {}, 4) + "abcd",
            test::record("n", {}, "Int32", "abcd"));
}

TEST(CkptWriter, AgreesWithTheReaderForRandomParameters) {
  std::mt19937_64 random(42);
  for (int round = 0; round < 2000; ++round) {
    const std::string name(1 + random() % 300, static_cast<char>('a' + random() % 26));
    const auto dtype = static_cast<DType>(random() % 14);
    Shape shape(random() % 6);
    for (std::int64_t& dim : shape) dim = static_cast<std::int64_t>(1 + random() % 6);
    const auto bytes = static_cast<std::uint64_t>(element_count(shape) * element_size(dtype));
    const std::string header = record_header(name, dtype, shape, bytes);
    EXPECT_EQ(record_header_bytes(name, dtype, shape, bytes), header.size());
    const std::string content(bytes, 'x');
    EXPECT_EQ(header + content,
              test::record(name, shape, std::string(mindspore_name(dtype)), content));
    const FileIndex index = read_index(MemorySource(header + content));
    const TensorEntry* entry = index.find(name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->dtype, dtype);
    EXPECT_EQ(entry->shape, shape);
    EXPECT_EQ(entry->extents, (FileExtents{{header.size(), bytes}}));
  }
}

TEST(CkptWriter, CountsHeadersOfLargeContent) {
  for (const std::uint64_t bytes : {0ULL, 127ULL, 128ULL, 16383ULL, 16384ULL, 1ULL << 29U}) {
    const auto dim = static_cast<std::int64_t>(bytes);
    EXPECT_EQ(record_header_bytes("w", DType::kInt8, {dim}, bytes),
              record_header("w", DType::kInt8, {dim}, bytes).size());
  }
}

#ifdef RESHARDFS_GOLDEN_DIR
TEST(CkptWriter, ReproducesGoldenFilesByteForByte) {
  std::size_t files = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(RESHARDFS_GOLDEN_DIR)) {
    const std::string path = file.path().string();
    if (path.find("/dst/rank_") == std::string::npos || !path.ends_with(".ckpt")) continue;
    const ByteSourcePtr source = open_local_file(path);
    std::string original(source->size(), '\0');
    source->read_at(0, std::as_writable_bytes(std::span(original)));
    std::string written;
    const FileIndex index = read_index(*source);
    for (const TensorEntry& entry : index.entries()) {
      for (const ByteRange& extent : entry.extents) {
        written += record_header(entry.name, entry.dtype, entry.shape, extent.length());
        written += original.substr(extent.offset(), extent.length());
      }
    }
    EXPECT_TRUE(written == original) << path;
    ++files;
  }
  EXPECT_GT(files, 50U);
}
#endif

}  // namespace
}  // namespace reshardfs::ckpt
