// SPDX-License-Identifier: Apache-2.0
/// Files that are cut, flipped or made up: each is refused, or gives an index whose every extent
/// lies inside the file.
#include <cstdlib>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/content_size.h"
#include "format/safetensors/safetensors.h"
#include "safetensors_samples.h"
#include "support/sources.h"

namespace reshardfs::safetensors {
namespace {

using test::MemorySource;
using test::safetensors_file;
using test::tensor_json;

/// Nothing if the file is refused. Checks the index otherwise.
std::optional<FileIndex> checked_index(const std::string& file) {
  const MemorySource source(file);
  try {
    FileIndex index = read_index(source);
    std::uint64_t last_end = 0;
    for (const TensorEntry& entry : index.entries()) {
      std::uint64_t bytes = 0;
      for (const ByteRange& extent : entry.extents) {
        // What is refused has its place between the others.
        const bool follows = last_end == 0 || extent.offset() == last_end;
        EXPECT_TRUE(follows || (!index.refused().empty() && extent.offset() > last_end))
            << "a hole or an overlap";
        EXPECT_LE(extent.length(), file.size());
        EXPECT_LE(extent.offset(), file.size() - extent.length());
        last_end = extent.end();
        bytes += extent.length();
      }
      EXPECT_EQ(bytes, entry.content_bytes);
      EXPECT_EQ(static_cast<std::uint64_t>(content_size(entry.shape, entry.dtype, "size")), bytes);
      EXPECT_EQ(index.find(entry.name), &entry);
    }
    EXPECT_TRUE(last_end == 0 || last_end == file.size() || !index.refused().empty());
    EXPECT_NO_THROW(check_crc(source));
    EXPECT_NO_THROW(read_metadata(source));
    return index;
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::kBadInput || error.kind() == ErrorKind::kUnsupported)
        << error.what();
    EXPECT_EQ(error.file(), "memory.ckpt");
    return std::nullopt;
  }
}

std::string sample_file() {
  return safetensors_file(R"({"__metadata__":{"format":"ms","q":"Int4","crc_num":"12"},)" +
                              tensor_json("层.weight", "F32", "[3,5]", 0, 60) + "," +
                              tensor_json("step", "I32", "[]", 60, 64) + "," +
                              tensor_json(R"(e\u00e9\"\\)", "BF16", "[0,2]", 64, 64) + "," +
                              tensor_json("q", "I8", "[2]", 64, 66) + "}  ",
                          std::string(66, 'd'));
}

TEST(SafetensorsDamage, EveryCutIsRefused) {
  const std::string file = sample_file();
  ASSERT_TRUE(checked_index(file).has_value());
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(checked_index(file.substr(0, size)).has_value()) << "cut at " << size;
  }
  EXPECT_FALSE(checked_index(file + '\0').has_value());
}

TEST(SafetensorsDamage, EveryByteValueAtEveryPlaceIsRefusedOrGivesAConsistentIndex) {
  const std::string file = safetensors_file(
      R"({"__metadata__":{"a":"b"},)" + tensor_json("w", "U8", "[2]", 0, 2) + "} ", "xy");
  ASSERT_TRUE(checked_index(file).has_value());
  std::size_t accepted = 0;
  for (std::size_t at = 0; at < file.size() - 2; ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = file;
      changed[at] = static_cast<char>(value);
      if (checked_index(changed)) ++accepted;
    }
  }
  // Letters of names and of metadata may be others; brackets, digits and keys may not.
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, file.size() * 256 / 4);
}

TEST(SafetensorsDamage, EveryRemovedOrRepeatedByteOfTheHeaderIsRefusedOrConsistent) {
  const std::string file = sample_file();
  const std::string header = file.substr(8, file.size() - 8 - 66);
  for (std::size_t at = 0; at < header.size(); ++at) {
    checked_index(
        safetensors_file(header.substr(0, at) + header.substr(at + 1), std::string(66, 'd')));
    checked_index(safetensors_file(header.substr(0, at) + header[at] + header.substr(at),
                                   std::string(66, 'd')));
  }
}

TEST(SafetensorsDamage, DeepNestingIsRefusedWithoutRecursion) {
  for (const std::string open : {"[", R"({"a":)"}) {
    std::string text = R"({"a":)";
    for (int i = 0; i < 200'000; ++i) text += open;
    EXPECT_FALSE(checked_index(safetensors_file(text + "}")).has_value());
  }
}

TEST(SafetensorsDamage, HeadersOfRandomPiecesAreRefusedOrConsistent) {
  const char* fixed = std::getenv("RESHARDFS_SEED");
  const std::uint64_t seed =
      fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("RESHARDFS_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::string> pieces{"{",
                                        "}",
                                        "[",
                                        "]",
                                        ":",
                                        ",",
                                        R"("w")",
                                        R"("v")",
                                        R"("")",
                                        R"("F32")",
                                        R"("U8")",
                                        R"("x")",
                                        "0",
                                        "1",
                                        "4",
                                        "-1",
                                        "1e3",
                                        "null",
                                        "true",
                                        " ",
                                        R"("dtype":"U8")",
                                        R"("shape":[1])",
                                        R"("data_offsets":[0,1])",
                                        R"("__metadata__":{)",
                                        R"("w":{)",
                                        "}}",
                                        "18446744073709551615"};
  for (int round = 0; round < 20'000; ++round) {
    std::string header = "{";
    for (auto count = random() % 14; count > 0; --count) header += pieces[random() % pieces.size()];
    checked_index(safetensors_file(header + "}", std::string(random() % 3, 'x')));
  }
}

}  // namespace
}  // namespace reshardfs::safetensors
