// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/strided_read.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/sources.h"

namespace reshardfs {
namespace {

using test::CountingSource;
using test::MemorySource;

/// Bytes of the elements in C order, one by one.
std::string elements_of(const TorchTensor& tensor, const std::string& file) {
  const auto width = static_cast<std::size_t>(element_size(tensor.dtype));
  std::string out;
  Shape index(tensor.shape.size());
  const std::int64_t count = element_count(tensor.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t at = tensor.first;
    for (std::size_t d = tensor.shape.size(); d-- > 0;) {
      at += rest % tensor.shape[d] * tensor.strides[d];
      rest /= tensor.shape[d];
    }
    out += file.substr(tensor.storage.offset() + static_cast<std::size_t>(at) * width, width);
  }
  return out;
}

std::string noise(std::size_t bytes, std::mt19937& random) {
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

std::string read(const ByteSource& source, const TorchTensor& tensor, std::size_t offset,
                 std::size_t bytes) {
  std::string out(bytes, '\0');
  read_strided(source, tensor, {offset, std::as_writable_bytes(std::span(out))});
  return out;
}

TEST(StridedRead, ReadsAnyRangeOfPermutedTensors) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    TorchTensor tensor;
    tensor.dtype =
        std::array{DType::kUInt8, DType::kBFloat16, DType::kFloat32, DType::kInt64}[random() % 4];
    const std::size_t dimensions = random() % 4;
    for (std::size_t d = 0; d < dimensions; ++d) {
      tensor.shape.push_back(static_cast<std::int64_t>(1 + random() % 6));
    }
    // Dense in some order of the dimensions, or with gaps, or repeated.
    std::vector<std::size_t> order(dimensions);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    tensor.strides.assign(dimensions, 0);
    std::int64_t stride = 1;
    for (const std::size_t d : order) {
      tensor.strides[d] = random() % 9 == 0 ? 0 : stride;
      stride *= tensor.shape[d] + static_cast<std::int64_t>(random() % 2);
    }
    tensor.first = static_cast<std::int64_t>(random() % 3);
    tensor.storage = {random() % 7, static_cast<std::uint64_t>((stride + 8) * 8)};
    const std::string file = noise(tensor.storage.end(), random);
    const MemorySource source(file);
    const std::string all = elements_of(tensor, file);
    EXPECT_EQ(read(source, tensor, 0, all.size()), all);
    const std::size_t begin = random() % all.size();
    const std::size_t bytes = random() % (all.size() - begin + 1);
    EXPECT_EQ(read(source, tensor, begin, bytes), all.substr(begin, bytes));
  }
}

TEST(StridedRead, ReadsLargeTensorsBlockByBlock) {
  std::mt19937 random(1);
  TorchTensor tensor;
  tensor.dtype = DType::kFloat32;
  tensor.shape = {1500, 1100};
  tensor.strides = {1, 1500};
  tensor.storage = {3, 1500 * 1100 * 4};
  const std::string file = noise(tensor.storage.end(), random);
  const std::string all = elements_of(tensor, file);
  EXPECT_EQ(read(MemorySource(file), tensor, 0, all.size()), all);
  // Blocks of many rows that begin and end within one.
  for (const auto& [begin, bytes] : {std::pair{5U, 3U << 20U}, {4399U, 2U << 20U}, {1U, 50'000U}}) {
    EXPECT_EQ(read(MemorySource(file), tensor, begin, bytes), all.substr(begin, bytes));
  }
  // One row is in as many places as it has elements, and little else is read.
  const CountingSource counting(std::make_shared<MemorySource>(file));
  EXPECT_EQ(read(counting, tensor, 4400, 4400), all.substr(4400, 4400));
  EXPECT_EQ(counting.bytes(), 4400U);
}

/// A photograph's channels last, rows that are swapped with others, and a batch of transposed ones.
TEST(StridedRead, ReadsWhatIsPartlyInOrder) {
  struct Case {
    Shape shape;
    Shape strides;
  };
  std::mt19937 random(2);
  for (const Case& one :
       {Case{{30, 3, 40, 50}, {6000, 1, 150, 3}}, Case{{64, 100, 33}, {33, 2112, 1}},
        Case{{20, 90, 80}, {7200, 1, 90}}, Case{{700, 5, 60}, {60, 0, 1}}}) {
    TorchTensor tensor;
    tensor.dtype = DType::kBFloat16;
    tensor.shape = one.shape;
    tensor.strides = one.strides;
    tensor.storage = {9, static_cast<std::uint64_t>(2 * element_count(one.shape))};
    const std::string file = noise(tensor.storage.end(), random);
    const std::string all = elements_of(tensor, file);
    for (int round = 0; round < 20; ++round) {
      const std::size_t begin = random() % all.size();
      const std::size_t bytes = random() % (all.size() - begin + 1);
      EXPECT_EQ(read(MemorySource(file), tensor, begin, bytes), all.substr(begin, bytes));
    }
  }
}

TEST(StridedRead, ReadsPiecesThatShareElements) {
  TorchTensor tensor;
  tensor.dtype = DType::kUInt8;
  tensor.shape = {4, 1800};
  tensor.strides = {800'000, 500};
  tensor.storage = {0, 6'000'000};
  std::mt19937 random(3);
  const std::string file = noise(tensor.storage.end(), random);
  const std::string all = elements_of(tensor, file);
  EXPECT_EQ(read(MemorySource(file), tensor, 0, all.size()), all);
}

}  // namespace
}  // namespace reshardfs
