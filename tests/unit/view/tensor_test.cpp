// SPDX-License-Identifier: Apache-2.0
/// Tensors of a conversion, against the element that a formula has at each place.
#include "reshardfs/tensor.h"

#include <random>

#include <gtest/gtest.h>

#include "reshardfs/conversion.h"

#include "support/checkpoint.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs::tensor_tests {
namespace {

using test::counting_bytes;
using test::expect_error;
using test::record;
using test::TempDir;

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kColumns = 6;
constexpr std::int64_t kDepth = 10;

std::string all_of(const Tensor& tensor) {
  std::vector<std::byte> out(tensor.bytes());
  tensor.read(0, out);
  return test::text_of(out);
}

/// Two source ranks have two rows each; two destination ranks get half of the columns each.
class Tensors : public testing::Test {
 protected:
  Tensors() {
    for (const int rank : {0, 1}) {
      const auto first = static_cast<unsigned>(rank) * 120;
      directory_.write(
          "ckpt/rank_" + std::to_string(rank) + "/a.ckpt",
          record("w", {kRows / 2, kColumns, kDepth}, "UInt8", counting_bytes(120, first)) +
              record("scale", {}, "Float32", counting_bytes(4)) +
              record("empty", {0, 3}, "Float32", "") + record("text", {0}, "str", "abcd"));
    }
    options_.source.path = directory_.path() / "ckpt";
    options_.source.join = {"w"};
    options_.dst_strategy = directory_.write("to.toml",
                                             "[devices]\naxes = [\"tp=2\"]\n[[rule]]\nmatch = "
                                             "[\"w\"]\ncut = [\"\", \"tp\", \"\"]\n");
  }

  /// The bytes of a box of destination rank 1 that begins at these indices.
  static std::string expected(const Shape& begin, const Shape& end) {
    std::string bytes;
    for (std::int64_t i = begin[0]; i < end[0]; ++i) {
      for (std::int64_t j = begin[1]; j < end[1]; ++j) {
        for (std::int64_t k = begin[2]; k < end[2]; ++k) {
          bytes += static_cast<char>((i * kColumns + kColumns / 2 + j) * kDepth + k);
        }
      }
    }
    return bytes;
  }

  Conversion open() const { return Conversion::open(options_); }

  TempDir directory_;
  ConversionOptions options_;
};

TEST_F(Tensors, AreKnownWithoutBeingRead) {
  const TensorSet tensors = open().tensors(Rank(1));
  const auto index = tensors.find("w");
  ASSERT_TRUE(index.has_value());
  const TensorInfo info = tensors.info(*index);
  EXPECT_EQ(info.name, "w");
  EXPECT_EQ(info.dtype, DType::kUInt8);
  EXPECT_EQ(info.shape, (Shape{kRows, kColumns / 2, kDepth}));
  EXPECT_EQ(info.bytes, 120U);
  const Tensor tensor = tensors.at(*index);
  EXPECT_EQ(tensor.name(), info.name);
  EXPECT_EQ(tensor.dtype(), info.dtype);
  EXPECT_EQ(tensor.shape(), info.shape);
  EXPECT_EQ(tensor.bytes(), info.bytes);
}

TEST_F(Tensors, OutliveTheConversion) {
  const Tensor tensor = open().tensors(Rank(1)).at("w");
  EXPECT_EQ(all_of(tensor), expected({0, 0, 0}, {kRows, kColumns / 2, kDepth}));
}

TEST_F(Tensors, OfTheWholeModelAreWhole) {
  const TensorSet whole = open().whole_tensors();
  EXPECT_EQ(all_of(whole.at("w")), counting_bytes(240));
  EXPECT_EQ(all_of(whole.at("scale")), counting_bytes(4));
  EXPECT_EQ(whole.at("scale").shape(), Shape{});
}

TEST_F(Tensors, OfTextAreItsBytes) {
  const Tensor text = open().tensors(Rank(0)).at("text");
  EXPECT_EQ(text.dtype(), DType::kString);
  EXPECT_EQ(text.shape(), Shape{4});
  EXPECT_EQ(all_of(text), "abcd");
}

TEST_F(Tensors, GiveAnyRangeOfAnyBox) {
  const Tensor tensor = open().tensors(Rank(1)).at("w");
  const Shape& shape = tensor.shape();
  std::mt19937 random(11);
  const auto upto = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    Shape begin;
    Shape end;
    for (const std::int64_t length : shape) {
      begin.push_back(upto(length));
      end.push_back(begin.back() + upto(length - begin.back()));
    }
    const Tensor box = tensor.box(begin, end);
    const std::string bytes = expected(begin, end);
    ASSERT_EQ(box.bytes(), bytes.size());
    const auto size = static_cast<std::int64_t>(bytes.size());
    const std::int64_t offset = upto(size);
    std::vector<std::byte> out(static_cast<std::size_t>(upto(size - offset)));
    box.read(static_cast<std::uint64_t>(offset), out);
    ASSERT_EQ(test::text_of(out), bytes.substr(static_cast<std::size_t>(offset), out.size()))
        << to_string(begin) << to_string(end);
  }
}

TEST_F(Tensors, HaveBoxesOfBoxes) {
  const Tensor outer = open().tensors(Rank(1)).at("w").box({1, 0, 2}, {4, 3, 9});
  EXPECT_EQ(all_of(outer.box({1, 1, 1}, {3, 2, 4})), expected({2, 1, 3}, {4, 2, 6}));
}

/// Runs further apart than what is read with the gaps between them, and runs that are closer.
TEST_F(Tensors, HaveBoxesOfFewColumns) {
  constexpr std::int64_t kMany = 300;
  for (const std::int64_t width : {200, 6000}) {
    const std::string bytes = counting_bytes(static_cast<std::size_t>(kMany * width));
    const auto file = directory_.write("wide.ckpt", record("w", {kMany, width}, "UInt8", bytes));
    ConversionOptions options;
    options.source.path = file;
    const Tensor box = Conversion::open(options).whole_tensors().at("w").box({3, 7}, {290, 12});
    std::string expected;
    for (std::int64_t row = 3; row < 290; ++row) {
      expected += bytes.substr(static_cast<std::size_t>(row * width + 7), 5);
    }
    EXPECT_EQ(all_of(box), expected) << width;
  }
}

TEST_F(Tensors, RefuseWhatIsNotThere) {
  const Conversion conversion = open();
  const TensorSet tensors = conversion.tensors(Rank(0));
  const Tensor tensor = tensors.at("w");
  const auto kUsage = ErrorKind::kUsage;
  expect_error(kUsage, {"no target rank 2", "has ranks 0,1"}, [&] { conversion.tensors(Rank(2)); });
  expect_error(kUsage, {"no tensor 9"}, [&] { tensors.info(9); });
  expect_error(kUsage, {"no tensor 9"}, [&] { tensors.at(9); });
  expect_error(ErrorKind::kMissing, {"'scales'", "did you mean 'scale'?"},
               [&] { tensors.at("scales"); });
  expect_error(kUsage, {"parameter 'w'", "2 dimensions"}, [&] { tensor.box({0, 0}, {1, 1}); });
  expect_error(kUsage, {"parameter 'w'", "[4, 3, 11]", "[4, 3, 10]"}, [&] {
    tensor.box({0, 0, 0}, {4, 3, 11});
  });
  expect_error(kUsage, {"[2, 0, 0]"}, [&] { tensor.box({2, 0, 0}, {1, 3, 10}); });
  std::vector<std::byte> out(2);
  expect_error(kUsage, {"119 to 121", "size is 120"}, [&] { tensor.read(119, out); });
}

TEST_F(Tensors, AreOfTheRanksThatWereChosen) {
  options_.ranks = {Rank(1)};
  options_.views = {ViewKind::kRanks};
  const Conversion conversion = open();
  EXPECT_EQ(conversion.tensors(Rank(1)).size(), 4U);
  expect_error(ErrorKind::kUsage, {"rank 0", "--ranks"}, [&] { conversion.tensors(Rank(0)); });
  expect_error(ErrorKind::kUsage, {"--views"}, [&] { conversion.whole_tensors(); });
}

TEST_F(Tensors, OfAFileThatChangesAreRefused) {
  const Tensor tensor = open().tensors(Rank(1)).at("w");
  directory_.write("ckpt/rank_1/a.ckpt", std::string(4000, 'x'));
  expect_error(ErrorKind::kChanged, {"rank_1/a.ckpt"}, [&] { all_of(tensor); });
}

}  // namespace
}  // namespace reshardfs::tensor_tests
