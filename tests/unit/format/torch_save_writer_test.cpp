// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_save_writer.h"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "format/torch/torch_archive.h"
#include "format/torch/torch_crc.h"
#include "format/torch/torch_save.h"
#include "format/torch/torch_zip_writer.h"
#include "support/dtypes.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::expect_error;

/// A file of which no storage's bytes are there: they are 0.
class FramedFile final : public ByteSource {
 public:
  explicit FramedFile(const TorchSaveFrame& frame, std::span<const std::uint32_t> checksums = {})
      : size_(frame.file_bytes()) {
    parts_.emplace_back(0, frame.head());
    for (std::size_t i = 0; i < frame.storage_count(); ++i) {
      const std::uint32_t checksum = checksums.empty() ? 0 : checksums[i];
      parts_.emplace_back(frame.begin(i), torch_storage_header(i, frame.content(i).length(),
                                                               frame.begin(i), checksum));
    }
    parts_.emplace_back(frame.begin(frame.storage_count()), frame.tail(checksums));
  }

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return size_; }
  std::int64_t mtime_ns() const override { return 0; }
  void check_unchanged() const override {}
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    std::fill(out.begin(), out.end(), std::byte{0});
    auto part = std::upper_bound(parts_.begin(), parts_.end(), offset,
                                 [](std::uint64_t at, const auto& p) { return at < p.first; });
    for (--part; part != parts_.end() && part->first < offset + out.size(); ++part) {
      const std::uint64_t from = std::max(offset, part->first);
      const std::uint64_t end = std::min(offset + out.size(), part->first + part->second.size());
      for (std::uint64_t at = from; at < end; ++at) {
        out[at - offset] = static_cast<std::byte>(part->second[at - part->first]);
      }
    }
  }

  /// Whether the parts leave exactly the storages between them.
  void expect_without_holes(const TorchSaveFrame& frame) const {
    for (std::size_t i = 0; i + 1 < parts_.size(); ++i) {
      const std::uint64_t end = parts_[i].first + parts_[i].second.size();
      const std::uint64_t expected = i == 0 ? frame.begin(0) : frame.content(i - 1).offset();
      EXPECT_EQ(end, expected) << i;
    }
    EXPECT_EQ(parts_.back().first + parts_.back().second.size(), size_);
  }

 private:
  std::uint64_t size_;
  std::vector<std::pair<std::uint64_t, std::string>> parts_;
  std::string name_ = "model.pt";
};

std::vector<TorchTensor> read_again(const TorchSaveFrame& frame) {
  const FramedFile file(frame);
  file.expect_without_holes(frame);
  const TorchArchive archive(file);
  TorchSave read = read_torch_save(archive);
  EXPECT_TRUE(read.refused.empty());
  EXPECT_TRUE(read.beside.values.empty());
  return std::move(read.tensors);
}

void expect_same(std::span<const SavedTensor> tensors) {
  const TorchSaveFrame frame(tensors);
  const std::vector<TorchTensor> read = read_again(frame);
  ASSERT_EQ(read.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    SCOPED_TRACE(std::string(tensors[i].name));
    EXPECT_EQ(read[i].name, tensors[i].name);
    EXPECT_EQ(read[i].dtype, tensors[i].dtype);
    EXPECT_EQ(read[i].shape, tensors[i].shape);
    EXPECT_EQ(read[i].first, 0);
    EXPECT_TRUE(is_contiguous(read[i]));
    EXPECT_EQ(read[i].storage, frame.content(tensors[i].storage));
    EXPECT_EQ(read[i].storage.offset() % kTorchArchiveAlign, 0U);
  }
}

TEST(TorchSaveWriter, IsReadAgain) {
  std::vector<SavedTensor> tensors;
  std::vector<std::string> names;
  for (const DType dtype : test::kNumberTypes) {
    if (dtype == DType::kInt4) continue;
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 5}, Shape{3, 4}, Shape{7, 1, 300}}) {
      names.push_back("layer." + std::to_string(names.size()) + ".\xc3\xa9 \n'");
      tensors.push_back({{}, dtype, shape, tensors.size()});
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) tensors[i].name = names[i];
  expect_same(tensors);
}

TEST(TorchSaveWriter, IsReadAgainWithoutTensors) {
  const TorchSaveFrame frame({});
  EXPECT_EQ(frame.storage_count(), 0U);
  EXPECT_EQ(frame.file_bytes(), frame.head().size() + frame.tail({}).size());
}

TEST(TorchSaveWriter, CountsBeyond32Bits) {
  constexpr std::int64_t kLimit = 0xffffffff;
  for (const std::int64_t bytes : {kLimit - 4096, kLimit - 1, kLimit, std::int64_t{1} << 45U}) {
    // The second begins where 32 bits may not be enough, and the third is large there.
    expect_same(std::vector<SavedTensor>{{"a", DType::kInt8, {bytes}, 0},
                                         {"b", DType::kFloat32, {3}, 1},
                                         {"c", DType::kInt8, {bytes}, 2},
                                         {"d", DType::kFloat8E5M2, {1}, 3}});
  }
}

TEST(TorchSaveWriter, CountsEntriesBeyond16Bits) {
  // Three entries stand before those of the storages.
  for (const std::size_t count : {65531U, 65532U, 65533U, 70000U}) {
    std::vector<std::string> names(count);
    std::vector<SavedTensor> tensors(count);
    for (std::size_t i = 0; i < count; ++i) {
      names[i] = std::to_string(i);
      tensors[i] = {names[i], DType::kUInt8, {1}, i};
    }
    const TorchSaveFrame frame(tensors);
    const std::vector<TorchTensor> read = read_again(frame);
    ASSERT_EQ(read.size(), count);
    EXPECT_EQ(read.back().storage, frame.content(count - 1));
  }
}

TEST(TorchSaveWriter, SharesStorages) {
  expect_same(std::vector<SavedTensor>{{"a", DType::kFloat32, {4, 9}, 0},
                                       {"b", DType::kFloat16, {2}, 1},
                                       {"tied", DType::kFloat32, {9, 4}, 0},
                                       {"c", DType::kFloat16, {2}, 2},
                                       {"twice", DType::kFloat16, {2, 1}, 1}});
  expect_error(ErrorKind::kInternal, {"in order"}, [] {
    TorchSaveFrame(std::vector<SavedTensor>{{"a", DType::kFloat32, {1}, 1}});
  });
}

TEST(TorchSaveWriter, PutsChecksumsIntoHeadersAndDirectory) {
  const std::vector<SavedTensor> tensors{{"a", DType::kUInt8, {3}, 0},
                                         {"b", DType::kUInt8, {5}, 1}};
  const TorchSaveFrame frame(tensors);
  const std::vector<std::uint32_t> sums{zip_checksum(std::string(3, '\0')),
                                        zip_checksum(std::string(5, '\0'))};
  const FramedFile file(frame, sums);
  file.expect_without_holes(frame);
  EXPECT_EQ(frame.tail(sums).size(), frame.tail({}).size());
  EXPECT_EQ(check_torch_crc(file), CrcCheck::kGood);
  EXPECT_EQ(check_torch_crc(FramedFile(frame)), CrcCheck::kNoTrailer);
  EXPECT_EQ(check_torch_crc(FramedFile(frame, std::vector<std::uint32_t>{sums[0], 1})),
            CrcCheck::kBad);
}

TEST(TorchSaveWriter, ChecksumsGoOn) {
  EXPECT_EQ(zip_checksum("123456789"), 0xcbf43926U);
  EXPECT_EQ(zip_checksum("456789", zip_checksum("123")), 0xcbf43926U);
}

TEST(TorchSaveWriter, RefusesByName) {
  for (const DType dtype : {DType::kInt4, DType::kComplex64, DType::kFloat4E2M1, DType::kString}) {
    expect_error(ErrorKind::kUnsupported, {"w", "cannot be written for PyTorch", "--exclude"}, [&] {
      TorchSaveFrame(std::vector<SavedTensor>{{"w", dtype, {2}, 0}});
    });
  }
  expect_error(ErrorKind::kUnsupported, {"UTF-8"}, [] {
    TorchSaveFrame(std::vector<SavedTensor>{{"\xff", DType::kFloat32, {2}, 0}});
  });
  expect_error(ErrorKind::kBadInput, {"w"}, [] {
    const std::int64_t half = std::int64_t{1} << 62U;
    TorchSaveFrame(std::vector<SavedTensor>{{"w", DType::kFloat64, {half}, 0}});
  });
}

}  // namespace
}  // namespace reshardfs
