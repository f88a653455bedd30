// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_zip_writer.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "format/torch/pickle_globals.h"
#include "format/torch/torch_zip.h"
#include "format/torch/torch_zip_tensors.h"
#include "support/dtypes.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs {
namespace {

using test::expect_error;

/// An archive whose tensor has so many bytes, of which none is there.
class FramedSource final : public ByteSource {
 public:
  FramedSource(TorchArchiveFrame frame, std::uint64_t data)
      : frame_(std::move(frame)), data_(data) {}

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return frame_.head.size() + data_ + frame_.tail.size(); }
  std::int64_t mtime_ns() const override { return 0; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    for (std::byte& byte : out) byte = at(offset++);
  }
  void check_unchanged() const override {}

 private:
  std::byte at(std::uint64_t offset) const {
    if (offset < frame_.head.size()) return static_cast<std::byte>(frame_.head[offset]);
    offset -= frame_.head.size();
    return offset < data_ ? std::byte{0} : static_cast<std::byte>(frame_.tail.at(offset - data_));
  }

  TorchArchiveFrame frame_;
  std::uint64_t data_;
  std::string name_ = "x.distcp";
};

void expect_same(DType dtype, const Shape& shape) {
  SCOPED_TRACE(to_string(shape));
  const TorchArchiveFrame frame = torch_archive_frame(dtype, shape);
  EXPECT_EQ(frame.head.size() % kTorchArchiveAlign, 0U);
  const auto bytes = static_cast<std::uint64_t>(element_count(shape)) *
                     static_cast<std::uint64_t>(element_size(dtype));
  const FramedSource source(frame, bytes);
  const TorchTensor tensor = read_torch_tensor(source, ByteRange::whole(source.size()));
  EXPECT_EQ(tensor.dtype, dtype);
  EXPECT_EQ(tensor.shape, shape);
  EXPECT_TRUE(is_contiguous(tensor));
  EXPECT_EQ(tensor.first, 0);
  EXPECT_EQ(tensor.storage, ByteRange(frame.head.size(), bytes));
}

TEST(TorchZipWriter, IsReadAgain) {
  for (const DType dtype : test::kNumberTypes) {
    if (dtype == DType::kInt4) continue;
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{0, 5}, Shape{3, 4}, Shape{7, 1, 300, 70000}}) {
      expect_same(dtype, shape);
    }
  }
}

TEST(TorchZipWriter, CountsBeyond32Bits) {
  constexpr std::int64_t kLimit = 0xffffffff;
  for (const std::int64_t bytes : {kLimit - 4096, kLimit - 400, kLimit - 384, kLimit - 383,
                                   kLimit - 1, kLimit, kLimit + 1, std::int64_t{1} << 45U}) {
    expect_same(DType::kInt8, {bytes});
    expect_same(DType::kFloat8E5M2, {1, bytes});
  }
}

TEST(TorchZipWriter, WritesAnObjectWithoutTensors) {
  const std::string archive = torch_archive("a pickle");
  const test::MemorySource source(archive);
  const TorchZip zip(source, ByteRange::whole(archive.size()));
  EXPECT_EQ(zip.read("data.pkl", 100), "a pickle");
  EXPECT_EQ(zip.read("version", 100), "3\n");
  EXPECT_EQ(zip.read("byteorder", 100), "little");
  EXPECT_FALSE(zip.has("data/0"));
}

TEST(TorchZipWriter, KnowsWhichTypesTorchHas) {
  for (const DType dtype : {DType::kInt4, DType::kString, DType::kMap}) {
    expect_error(ErrorKind::kUnsupported, {"PyTorch has no type"},
                 [&] { torch_archive_frame(dtype, {2}); });
  }
}

}  // namespace
}  // namespace reshardfs
