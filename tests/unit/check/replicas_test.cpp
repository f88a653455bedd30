// SPDX-License-Identifier: Apache-2.0
#include "check/replicas.h"

#include <span>

#include <gtest/gtest.h>

#include "support/checkpoint.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::counting_bytes;
using test::memory_set;
using test::record;

constexpr std::size_t kBytes = (2 << 20) + 12;

std::string file_with(const std::string& content) {
  return record("before", {1}, "Int8", "x") +
         record("w", {static_cast<std::int64_t>(content.size())}, "Int8", content);
}

std::vector<Holding> holdings_of(const CheckpointSet& set, const std::string& name = "w") {
  std::vector<Holding> out;
  for (const RankFile& file : set.files()) out.push_back({&file, file.index->find(name)});
  return out;
}

ReplicaReport compare(const std::map<std::int64_t, std::string>& contents, Progress& progress) {
  std::map<std::int64_t, std::string> files;
  for (const auto& [rank, content] : contents) files[rank] = file_with(content);
  const auto set = memory_set(files);
  CopyReader reader;
  ReplicaReport report = compare_replicas(holdings_of(*set), reader, progress);
  for (ReplicaDifference& difference : report.differences) {
    // The set goes away: what the test asks for is kept in the offsets alone.
    const std::string& bytes = files.at(difference.holding.file->rank.number());
    const std::uint64_t offset = file_offset(*difference.holding.entry, difference.first);
    EXPECT_EQ(bytes[offset], contents.at(difference.holding.file->rank.number())[difference.first]);
    difference.bytes += static_cast<std::uint64_t>(difference.holding.file->rank.number()) << 32U;
    difference.holding = {};
    difference.reference = {};
  }
  return report;
}

TEST(Replicas, AreEqual) {
  Progress progress;
  const std::string content = counting_bytes(kBytes);
  EXPECT_TRUE(compare({{0, content}, {1, content}, {5, content}}, progress).differences.empty());
  EXPECT_EQ(progress.values().bytes, 3 * kBytes);
}

TEST(Replicas, OneAloneIsRead) {
  Progress progress;
  EXPECT_TRUE(compare({{0, counting_bytes(kBytes)}}, progress).differences.empty());
  EXPECT_EQ(progress.values().bytes, kBytes);
}

TEST(Replicas, CountsBytesAndFindsTheFirst) {
  Progress progress;
  const std::string content = counting_bytes(kBytes);
  std::string other = content;
  other[1 << 20] ^= 1;  // the first byte of the second block
  other[(1 << 20) + 9] ^= 1;
  other[kBytes - 1] ^= 1;
  const ReplicaReport report = compare({{0, content}, {1, other}}, progress);
  ASSERT_EQ(report.differences.size(), 1U);
  EXPECT_EQ(report.differences[0].bytes, (std::uint64_t{1} << 32U) + 3);
  EXPECT_EQ(report.differences[0].first, std::uint64_t{1} << 20U);
}

TEST(Replicas, BlamesTheOneThatDiffersFromAllOthers) {
  Progress progress;
  const std::string content = counting_bytes(100);
  std::string other = content;
  other[7] ^= 1;
  for (const std::int64_t wrong : {0, 1, 2}) {
    std::map<std::int64_t, std::string> contents{{0, content}, {1, content}, {2, content}};
    contents[wrong] = other;
    const ReplicaReport report = compare(contents, progress);
    ASSERT_EQ(report.differences.size(), 1U) << wrong;
    EXPECT_EQ(report.differences[0].bytes, (static_cast<std::uint64_t>(wrong) << 32U) + 1);
    EXPECT_EQ(report.differences[0].first, 7U);
  }
}

TEST(Replicas, EndsWhenItIsStopped) {
  const std::string content = counting_bytes(kBytes);
  Progress progress;
  progress.stop();
  EXPECT_THROW(compare({{0, content}, {1, content}}, progress), Interrupted);
  EXPECT_GT(progress.values().bytes, 0U);
  EXPECT_LT(progress.values().bytes, 2 * kBytes);
}

TEST(Replicas, GoesOnWithoutACopyThatCannotBeRead) {
  const std::string content = counting_bytes(kBytes);
  std::vector<RankFile> files;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    std::string bytes = file_with(content);
    if (rank == 2) bytes.back() ^= 1;
    files.push_back(test::rank_file(rank, std::make_shared<test::MemorySource>(bytes)));
  }
  files[0].source = std::make_shared<test::FaultSource>(files[0].source, 2, EIO);
  const CheckpointSet set(std::move(files));
  Progress progress;
  CopyReader reader;
  const ReplicaReport report = compare_replicas(holdings_of(set), reader, progress);
  ASSERT_EQ(report.unreadable.size(), 1U);
  EXPECT_EQ(report.unreadable[0].first.file->rank, Rank(0));
  EXPECT_EQ(report.unreadable[0].second.kind(), ErrorKind::kIo);
  ASSERT_EQ(report.differences.size(), 1U);
  EXPECT_EQ(report.differences[0].holding.file->rank, Rank(2));
  EXPECT_EQ(report.differences[0].reference.file->rank, Rank(1));
}

TEST(FileOffset, LooksThroughExtentsAndOldBFloat16) {
  TensorEntry entry;
  entry.extents = {{100, 10}, {200, 10}};
  EXPECT_EQ(file_offset(entry, 9), 109U);
  EXPECT_EQ(file_offset(entry, 10), 200U);
  entry.encoding = ContentEncoding::kFloat32AsBFloat16;
  EXPECT_EQ(file_offset(entry, 0), 102U);
  EXPECT_EQ(file_offset(entry, 3), 107U);
  EXPECT_EQ(file_offset(entry, 5), 201U);
}

std::string content_read(CopyReader& reader, const RankFile& file, const std::string& name) {
  std::string found(4, '\0');
  reader.read({&file, file.index->find(name)}, 0, std::as_writable_bytes(std::span(found)));
  return found;
}

TEST(Replicas, ReadSmallOnesThatLieTogetherTogether) {
  constexpr int kCount = 1000;
  std::string bytes;
  const auto content = [](int i) { return std::to_string(1000 + i); };
  for (int i = 0; i < kCount; ++i) {
    bytes += record("w" + std::to_string(i), {4}, "Int8", content(i));
  }
  RankFile file = test::rank_file(0, std::make_shared<test::MemorySource>(bytes));
  const auto source = std::make_shared<test::CountingSource>(file.source);
  file.source = source;
  CopyReader reader;
  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(content_read(reader, file, "w" + std::to_string(i)), content(i));
  }
  EXPECT_LT(source->reads(), 10U);
  // The other way round, each is read by itself.
  const std::uint64_t before = source->reads();
  CopyReader other;
  for (int i = kCount; i-- > 0;) {
    ASSERT_EQ(content_read(other, file, "w" + std::to_string(i)), content(i));
  }
  EXPECT_EQ(source->reads() - before, static_cast<std::uint64_t>(kCount));
}

TEST(Replicas, ReadASmallOneAloneWhereWhatFollowsCannotBeRead) {
  const std::string bytes = record("a", {4}, "Int8", "abcd") + record("b", {4}, "Int8", "efgh") +
                            record("c", {4}, "Int8", "ijkl");
  RankFile file = test::rank_file(0, std::make_shared<test::MemorySource>(bytes));
  const auto faulty = std::make_shared<test::FaultSource>(file.source, 2, EIO);
  const auto source = std::make_shared<test::CountingSource>(faulty);
  file.source = source;
  CopyReader reader;
  EXPECT_EQ(content_read(reader, file, "a"), "abcd");
  EXPECT_EQ(content_read(reader, file, "b"), "efgh");
  EXPECT_EQ(source->reads(), 3U);
  EXPECT_EQ(content_read(reader, file, "c"), "ijkl");
}

}  // namespace
}  // namespace reshardfs
