// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp/torch_items.h"

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/torch/torch_zip_tensors.h"
#include "support/sources.h"
#include "unit/format/torch_zip_samples.h"

namespace reshardfs {
namespace {

/// As an object of a server.
class RemoteSource final : public test::Decorator {
 public:
  using Decorator::Decorator;
  bool is_far() const noexcept override { return true; }
  bool is_remote() const noexcept override { return true; }
};

TEST(TorchItems, AreWhereTheirFileIs) {
  const auto local = std::make_shared<test::MemorySource>(std::string(16, 'x'));
  TensorEntry entry;
  entry.name = "w";
  entry.shape = {4};
  const auto items = std::make_shared<const TorchItems>(
      std::vector<TensorEntry>{entry}, BoxOffsets(), std::vector<ByteRange>{{0, 16}});
  const ByteSourcePtr here = items->tensors(local);
  EXPECT_FALSE(here->is_far());
  EXPECT_FALSE(here->is_remote());
  const ByteSourcePtr there = items->tensors(std::make_shared<RemoteSource>(local));
  EXPECT_TRUE(there->is_far());
  EXPECT_TRUE(there->is_remote());
}

/// [1, 4] of float32, of which an entry is each half.
void expect_halves(const std::string& content, const char* strides, int elements) {
  const std::string archive = test::zip_file(
      {{"a/data.pkl", test::tensor_pickle("FloatStorage", elements, 0, "K\x01K\x04\x86", strides)},
       {"a/data/0", content},
       {"a/version", "3\n"}});
  const auto file = std::make_shared<test::MemorySource>(archive);
  TensorEntry half;
  half.name = "w";
  half.shape = {2};
  BoxOffsets pieces;
  pieces.add(0, {2});
  pieces.add(1, {0});
  const ByteRange place = ByteRange::whole(archive.size());
  const auto items = std::make_shared<const TorchItems>(
      std::vector<TensorEntry>{half, half}, std::move(pieces), std::vector<ByteRange>{place, place},
      TorchItems::Runs{{0, {2, 4}}, {1, {0, 4}}});
  EXPECT_TRUE(items->examine(*items->tensors(file), /*read_all=*/true).empty());
  std::string got(16, '\0');
  items->tensors(file)->read_at(0, std::as_writable_bytes(std::span(got)));
  EXPECT_EQ(got, "ccccddddaaaabbbb");
}

TEST(TorchItems, MayBePartsOfWhatIsStored) {
  expect_halves("aaaabbbbccccdddd", "K\x04K\x01\x86", 4);
  expect_halves("aaaa____bbbb____cccc____dddd", "K\x08K\x02\x86", 7);
}

TEST(TorchItems, OfWhichAPartIsWantedMustBeAsLargeAsTheyShouldBe) {
  const std::string archive =
      test::zip_file({{"a/data.pkl", test::tensor_pickle("FloatStorage", 4, 0, "K\x01K\x04\x86",
                                                         "K\x04K\x01\x86")},
                      {"a/data/0", std::string(16, 'x')},
                      {"a/version", "3\n"}});
  const auto file = std::make_shared<test::MemorySource>(archive, "f");
  TensorEntry half;
  half.name = "w";
  half.shape = {2};
  const auto items = std::make_shared<const TorchItems>(
      std::vector<TensorEntry>{half}, BoxOffsets(),
      std::vector<ByteRange>{ByteRange::whole(archive.size())}, TorchItems::Runs{{0, {0, 5}}});
  const auto refused = items->examine(*items->tensors(file), /*read_all=*/true);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_THAT(refused[0].reason, testing::HasSubstr("should be Float32 [1, 5] by the checkpoint's "
                                                    "metadata, but the file has Float32 [1, 4]"));
}

/// Counts how often the end of the file is read: once for each reading of an archive's directory.
class EndCounter final : public test::Decorator {
 public:
  using Decorator::Decorator;
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset + out.size() == size()) ++count;
    Decorator::read_at(offset, out);
  }
  mutable std::atomic<int> count{0};
};

TEST(TorchItems, InOneArchiveAreFoundByOneReading) {
  constexpr std::size_t kEntries = 8;
  std::string content;
  for (std::size_t i = 0; i < kEntries; ++i) content += std::string(4, static_cast<char>('a' + i));
  const std::string archive =
      test::zip_file({{"a/data.pkl", test::tensor_pickle("FloatStorage", 8, 0, "K\x01K\x08\x86",
                                                         "K\x08K\x01\x86")},
                      {"a/data/0", content},
                      {"a/version", "3\n"}});
  const auto file = std::make_shared<EndCounter>(std::make_shared<test::MemorySource>(archive));
  read_torch_tensor(*file, ByteRange::whole(archive.size()));
  const int once = file->count.exchange(0);
  std::vector<TensorEntry> entries(kEntries);
  BoxOffsets pieces;
  TorchItems::Runs runs;
  for (std::size_t i = 0; i < kEntries; ++i) {
    entries[i].name = "w";
    entries[i].shape = {1};
    pieces.add(i, {static_cast<std::int64_t>(i)});
    runs[i] = {static_cast<std::int64_t>(i), 8};
  }
  const auto items = std::make_shared<const TorchItems>(
      std::move(entries), std::move(pieces),
      std::vector<ByteRange>(kEntries, ByteRange::whole(archive.size())), std::move(runs));
  EXPECT_EQ(items->shared_places(), 1U);
  const ByteSourcePtr tensors = items->tensors(file);
  EXPECT_TRUE(items->examine(*tensors, /*read_all=*/true).empty());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      std::string got(content.size(), '\0');
      tensors->read_at(0, std::as_writable_bytes(std::span(got)));
      if (got != content) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(file->count, once);
}

TEST(TorchItems, WhosePlaceIsNotInTheFileAreSeenByItsSize) {
  TensorEntry entry;
  entry.name = "w";
  entry.shape = {4};
  TensorEntry later = entry;
  later.name = "x";
  TensorEntry empty = entry;
  empty.name = "empty";
  empty.shape = {0};
  const auto items = std::make_shared<const TorchItems>(
      std::vector<TensorEntry>{entry, later, empty}, BoxOffsets(),
      std::vector<ByteRange>{{0, 16}, {1, 16}, {900, 16}});
  EXPECT_EQ(items->places(), 3U);
  const ByteSourcePtr file =
      items->tensors(std::make_shared<test::MemorySource>(std::string(16, 'x'), "f"));
  const auto by_size = items->examine(*file, /*read_all=*/false);
  ASSERT_EQ(by_size.size(), 1U);
  EXPECT_EQ(by_size[0].name, "x");
  EXPECT_EQ(by_size[0].reason, "'f': its place ends at byte 17, but the file has 16 bytes");
  const auto read = items->examine(*file, /*read_all=*/true);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].name, "w");
}

}  // namespace
}  // namespace reshardfs
