// SPDX-License-Identifier: Apache-2.0
/// Files that are cut, flipped or made up: each is refused, or gives an index whose every extent
/// lies inside the file.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "format/ckpt/ckpt.h"
#include "support/sources.h"
#include "support/wire.h"

namespace reshardfs::ckpt {
namespace {

using test::MemorySource;
using test::record;

/// Nothing if the file is refused. Checks the index otherwise.
std::optional<FileIndex> checked_index(const std::string& file) {
  try {
    FileIndex index = read_index(MemorySource(file));
    std::uint64_t last_end = 0;
    for (const TensorEntry& entry : index.entries()) {
      std::uint64_t bytes = 0;
      for (const ByteRange& extent : entry.extents) {
        EXPECT_GE(extent.offset(), last_end) << "two extents overlap";
        EXPECT_LE(extent.length(), file.size());
        EXPECT_LE(extent.offset(), file.size() - extent.length());
        last_end = extent.end();
        bytes += extent.length();
      }
      const bool doubled = entry.encoding == ContentEncoding::kFloat32AsBFloat16;
      EXPECT_EQ(bytes, entry.content_bytes * (doubled ? 2U : 1U));
      if (entry.dtype != DType::kString) {
        EXPECT_EQ(
            static_cast<std::uint64_t>(element_count(entry.shape) * element_size(entry.dtype)),
            entry.content_bytes);
      }
      EXPECT_EQ(index.find(entry.name), &entry);
    }
    return index;
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::kBadInput || error.kind() == ErrorKind::kUnsupported)
        << error.what();
    EXPECT_EQ(error.file(), "memory.ckpt");
    return std::nullopt;
  }
}

std::vector<std::string> sample_records() {
  return {record("layer.weight", {3, 5}, "Float32", std::string(60, 'w')),
          record("layer.bias", {5}, "BFloat16", std::string(20, 'b')),
          record("text", {0}, "str", std::string("a\0\0\0", 4)),
          record("big", {300}, "Int8", std::string(300, 'c')),
          record("global_step", {}, "Int32", "1234")};
}

TEST(CkptDamage, EveryCutIsRefusedOrEndsBetweenRecords) {
  std::string file;
  std::set<std::size_t> boundaries;
  for (const std::string& one : sample_records()) {
    file += one;
    boundaries.insert(file.size());
  }
  file += test::trailer(1);
  for (std::size_t size = 0; size < file.size(); ++size) {
    const auto index = checked_index(file.substr(0, size));
    EXPECT_EQ(index.has_value(), boundaries.contains(size)) << "cut at " << size;
    if (index) {
      const auto before = std::distance(boundaries.begin(), boundaries.find(size)) + 1;
      EXPECT_EQ(index->entries().size(), static_cast<std::size_t>(before));
    }
  }
  EXPECT_TRUE(checked_index(file).has_value());
}

TEST(CkptDamage, EveryCutInsideASlicedParameterIsRefused) {
  const std::string part = record("w", {100}, "Int8", std::string(50, 'x'));
  for (std::size_t size = 0; size < 2 * part.size(); ++size) {
    EXPECT_FALSE(checked_index((part + part).substr(0, size))) << "cut at " << size;
  }
  EXPECT_TRUE(checked_index(part + part));
}

TEST(CkptDamage, EveryFlippedBitIsRefusedOrHarmless) {
  std::string file;
  for (const std::string& one : sample_records()) file += one;
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string broken = file;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
    checked_index(broken);
  }
}

TEST(CkptDamage, EveryByteValueAtEveryPlaceIsRefusedOrHarmless) {
  const std::string file = record("w", {2}, "Int16", "abcd") + record("v", {}, "Bool", "x");
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string broken = file;
      broken[at] = static_cast<char>(value);
      checked_index(broken);
    }
  }
}

/// Rounds of a random test; RESHARDFS_TEST_ROUNDS multiplies them for a longer search.
int rounds(int usual) {
  const char* factor = std::getenv("RESHARDFS_TEST_ROUNDS");
  return factor == nullptr ? usual : usual * std::max(1, std::atoi(factor));
}

TEST(CkptDamage, RandomSplicesAreRefusedOrHarmless) {
  std::mt19937_64 random(7);
  std::string file;
  for (const std::string& one : sample_records()) file += one;
  for (int round = 0; round < rounds(4'000); ++round) {
    std::string broken = file;
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % broken.size();
      const std::size_t length = random() % std::min<std::size_t>(40, broken.size() - at);
      switch (random() % 3) {
        case 0:
          broken.erase(at, length);
          break;
        case 1:
          broken.insert(at, broken.substr(random() % broken.size(), length));
          break;
        default:
          broken[at] = static_cast<char>(random());
      }
      if (broken.empty()) broken = "x";
    }
    checked_index(broken);
  }
}

/// A writer that uses every freedom protobuf gives, beside a model of what must be read.
class RandomFile {
 public:
  explicit RandomFile(std::uint64_t seed) : random_(seed) {}

  std::string make() {
    std::string file;
    for (int i = 0; i < 8; ++i) file += maybe_unknown_of_file() + entry("p" + std::to_string(i));
    return file + maybe_unknown_of_file();
  }
  const std::vector<TensorEntry>& expected() const { return expected_; }

 private:
  std::string entry(const std::string& name) {
    TensorEntry model;
    model.name = name;
    model.dtype = static_cast<DType>(random_() % 14);
    Shape shape(random_() % 5);
    for (auto& dim : shape)
      dim = static_cast<std::int64_t>(random_() % 300 == 0 ? 200 : 1 + random_() % 3);
    model.shape = shape;
    model.content_bytes =
        static_cast<std::uint64_t>(element_count(model.shape) * element_size(model.dtype));
    expected_.push_back(model);

    std::vector<std::string> fields = {
        lengthy(2, std::string(mindspore_name(model.dtype))),
        lengthy(3, std::string(model.content_bytes, static_cast<char>(random_()))), maybe_unknown(),
        dims(model.shape)};
    std::shuffle(fields.begin(), fields.end(), random_);
    std::string tensor;
    for (const std::string& field : fields) tensor += field;
    // What is overridden by what follows.
    if (random_() % 4 == 0) tensor = lengthy(2, "Junk") + lengthy(3, "overridden") + tensor;
    std::vector<std::string> parts = {lengthy(1, name), lengthy(2, tensor), maybe_unknown()};
    std::shuffle(parts.begin(), parts.end(), random_);
    std::string value = random_() % 4 == 0 ? lengthy(1, "overridden") : "";
    for (const std::string& part : parts) value += part;
    return lengthy(1, value);
  }

  std::string dims(const Shape& shape) {
    std::string packed;
    std::string plain;
    const std::size_t cut = random_() % (shape.size() + 1);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto dim = static_cast<std::uint64_t>(shape[i]);
      (i < cut ? packed : plain) += (i < cut ? "" : "\x08") + number(dim);
    }
    return (packed.empty() ? "" : lengthy(1, packed)) + plain;
  }
  std::string number(std::uint64_t value) { return test::varint(value, 1 + random_() % 10); }
  std::string lengthy(std::uint32_t field, const std::string& payload) {
    return test::varint(field << 3U | 2U, 1 + random_() % 5) + number(payload.size()) + payload;
  }
  std::string maybe_unknown() {
    return maybe_unknown(static_cast<std::uint32_t>(4 + random_() % 1000));
  }
  /// Fields 17, 33, ... are records with a wrong bit.
  std::string maybe_unknown_of_file() {
    const auto field = static_cast<std::uint32_t>(4 + random_() % 1000);
    return maybe_unknown(field % 16 == 1 ? 2 : field);
  }
  std::string maybe_unknown(std::uint32_t field) {
    switch (random_() % 8) {
      case 0:
        return test::varint(field << 3U) + number(random_());
      case 1:
        return test::varint(field << 3U | 1U) + "12345678";
      case 2:
        return test::varint(field << 3U | 5U) + "1234";
      case 3:
        return lengthy(field, std::string(random_() % 6000, 'u'));
      default:
        return "";
    }
  }

  std::mt19937_64 random_;
  std::vector<TensorEntry> expected_;
};

TEST(CkptProperty, ReadsEveryEncodingThatProtobufAllows) {
  for (int seed = 0; seed < rounds(400); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomFile writer(static_cast<std::uint64_t>(seed));
    const std::string file = writer.make();
    const auto index = checked_index(file);
    ASSERT_TRUE(index.has_value());
    ASSERT_EQ(index->entries().size(), writer.expected().size());
    for (std::size_t i = 0; i < writer.expected().size(); ++i) {
      const TensorEntry& got = index->entries()[i];
      const TensorEntry& want = writer.expected()[i];
      EXPECT_EQ(got.name, want.name);
      EXPECT_EQ(got.dtype, want.dtype);
      EXPECT_EQ(got.shape, want.shape);
      EXPECT_EQ(got.content_bytes, want.content_bytes);
    }
  }
}

}  // namespace
}  // namespace reshardfs::ckpt
