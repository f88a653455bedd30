// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/strided_read.h"
#include "support/errors.h"
#include "unit/checkpoint/recording_source.h"

namespace reshardfs::in_order_source_tests {
namespace {

using test::expect_error;
using test::read_text;
using test::RecordingSource;
using Calls = std::vector<std::string>;

TorchTensor bytes_tensor(const Shape& shape, const Shape& strides, std::int64_t first,
                         const ByteRange& storage) {
  TorchTensor tensor;
  tensor.dtype = DType::kUInt8;
  tensor.shape = shape;
  tensor.strides = strides;
  tensor.first = first;
  tensor.storage = storage;
  return tensor;
}

/// A file "..abcdef" with a transposed matrix, one of no elements, an expanded row and a column.
struct InOrder {
  InOrder() {
    file = std::make_shared<RecordingSource>("..abcdef", "model.pt", 9);
    source = std::make_unique<InOrderSource>(file);
    const ByteRange storage(2, 6);
    transposed = source->add(bytes_tensor({3, 2}, {1, 3}, 0, storage));
    empty = source->add(bytes_tensor({0, 2}, {1, 3}, 0, storage));
    expanded = source->add(bytes_tensor({3, 2}, {0, 1}, 1, storage));
    column = source->add(bytes_tensor({2}, {3}, 2, storage));
  }
  std::shared_ptr<RecordingSource> file;
  std::unique_ptr<InOrderSource> source;
  ByteRange transposed;
  ByteRange empty;
  ByteRange expanded;
  ByteRange column;
};

const std::string kAll = "..abcdefadbecfbcbcbccf";

TEST(InOrderSource, HasTensorsBehindTheFile) {
  const InOrder in_order;
  EXPECT_EQ(in_order.transposed, ByteRange(8, 6));
  EXPECT_EQ(in_order.empty, ByteRange(14, 0));
  EXPECT_EQ(in_order.expanded, ByteRange(14, 6));
  EXPECT_EQ(in_order.column, ByteRange(20, 2));
  EXPECT_EQ(in_order.source->size(), kAll.size());
  EXPECT_EQ(in_order.source->name(), "model.pt");
  EXPECT_EQ(in_order.source->mtime_ns(), 9);
  EXPECT_EQ(in_order.source->stamp().inode, 2U);
}

TEST(InOrderSource, ReadsAnyRange) {
  const InOrder in_order;
  for (std::size_t begin = 0; begin <= kAll.size(); ++begin) {
    for (std::size_t length = 0; begin + length <= kAll.size(); ++length) {
      ASSERT_EQ(read_text(*in_order.source, begin, length), kAll.substr(begin, length))
          << begin << "+" << length;
    }
  }
}

TEST(InOrderSource, ReadsElementsOfSeveralBytes) {
  const auto file = std::make_shared<RecordingSource>("aabbccdd", "model.pt");
  InOrderSource source(file);
  TorchTensor tensor = bytes_tensor({2, 2}, {1, 2}, 0, ByteRange(0, 8));
  tensor.dtype = DType::kFloat16;
  EXPECT_EQ(source.add(tensor), ByteRange(8, 8));
  EXPECT_EQ(read_text(source, 8, 8), "aaccbbdd");
  EXPECT_EQ(read_text(source, 11, 3), "cbb");
}

TEST(InOrderSource, ReadsPartsOfTheFileAtOnce) {
  const InOrder in_order;
  std::string a(2, '\0');
  std::string b(3, '\0');
  std::string c(4, '\0');
  const std::vector<ReadRequest> parts{{2, std::as_writable_bytes(std::span(a))},
                                       {5, std::as_writable_bytes(std::span(b))},
                                       {7, std::as_writable_bytes(std::span(c))}};
  in_order.source->read_many(parts);
  EXPECT_EQ(a + " " + b + " " + c, "ab def fadb");
  EXPECT_EQ(in_order.file->calls.back(), "many 2+2 5+3");
}

TEST(InOrderSource, SaysWhatWasForeseen) {
  const InOrder in_order;
  std::string out(kAll.size(), '\0');
  const ReadRequest part{0, std::as_writable_bytes(std::span(out)), /*foreseen=*/true};
  in_order.source->read_many({&part, 1});
  EXPECT_EQ(out, kAll);
  for (const std::string& call : in_order.file->calls) {
    EXPECT_TRUE(call.starts_with("foreseen") || call == "many") << call;  // the latter: of none
  }
}

TEST(InOrderSource, RefusesReadsBeyondItsEnd) {
  const InOrder in_order;
  expect_error(ErrorKind::kBadInput, {"model.pt"},
               [&] { read_text(*in_order.source, kAll.size() - 1, 2); });
  expect_error(ErrorKind::kBadInput, {"model.pt"},
               [&] { read_text(*in_order.source, UINT64_MAX, 2); });
  std::string out(2, '\0');
  const ReadRequest part{kAll.size() - 1, std::as_writable_bytes(std::span(out))};
  expect_error(ErrorKind::kBadInput, {"model.pt"}, [&] { in_order.source->read_many({&part, 1}); });
}

TEST(InOrderSource, RefusesToGrowWithoutEnd) {
  const auto file = std::make_shared<RecordingSource>("a", "model.pt");
  InOrderSource source(file);
  const TorchTensor huge = bytes_tensor({1LL << 62, 1}, {0, 0}, 0, ByteRange(0, 1));
  for (int i = 0; i < 3; ++i) source.add(huge);
  expect_error(ErrorKind::kBadInput, {"exceeds the range"}, [&] { source.add(huge); });
}

TEST(InOrderSource, ForeseesAndGathersInTheFileAlone) {
  const InOrder in_order;
  const std::vector<ByteRange> ranges{{1, 2}, {7, 2}, {9, 3}, {3, 5}};
  in_order.source->foresee(ranges, Foresight::kAhead);
  EXPECT_EQ(in_order.file->calls, Calls());
  in_order.file->far = true;
  EXPECT_TRUE(in_order.source->is_far());
  in_order.source->foresee(ranges, Foresight::kAhead);
  EXPECT_EQ(in_order.file->calls, (Calls{"ahead 1+2 3+5"}));
  std::string out(2, '.');
  auto* const bytes = reinterpret_cast<std::byte*>(out.data());
  in_order.file->gathers = true;
  EXPECT_TRUE(in_order.source->gather(StridedRanges(ByteRange(3, 1), 2, {4, 1}), bytes));
  EXPECT_EQ(out, "bf");
  EXPECT_FALSE(in_order.source->gather(StridedRanges(ByteRange(4, 1), 2, {4, 1}), bytes));
}

TEST(InOrderSource, ChangesAsItsFileDoes) {
  const InOrder in_order;
  EXPECT_NO_THROW(in_order.source->check_unchanged());
  in_order.file->changed = true;
  expect_error(ErrorKind::kChanged, {"model.pt"}, [&] { in_order.source->check_unchanged(); });
}

}  // namespace
}  // namespace reshardfs::in_order_source_tests
