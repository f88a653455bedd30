// SPDX-License-Identifier: Apache-2.0
#include "fuse/attributes.h"

#include <limits>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include "unit/vfs/sized_file.h"

namespace reshardfs {
namespace {

class EmptyFile : public VirtualFile {
 public:
  std::uint64_t size() const override { return 0; }
  void read_at(std::uint64_t, std::span<std::byte>) const override {}
};

Node file_node(std::uint64_t size) {
  Node node;
  node.inode = 9;
  node.file = std::make_shared<EmptyFile>();
  node.size = size;
  return node;
}

TEST(Attributes, OfAFile) {
  MountOptions options;
  options.uid = 5;
  options.gid = 6;
  options.mtime_ns = 1'500'000'000;
  const struct stat stat = attributes(file_node(1025), options);
  EXPECT_EQ(stat.st_ino, 9U);
  EXPECT_EQ(stat.st_mode, S_IFREG | 0444U);
  EXPECT_EQ(stat.st_nlink, 1U);
  EXPECT_EQ(stat.st_size, 1025);
  EXPECT_EQ(stat.st_blocks, 3);
  EXPECT_EQ(stat.st_blksize, 1 << 20);
  EXPECT_EQ(stat.st_uid, 5U);
  EXPECT_EQ(stat.st_gid, 6U);
  for (const timespec& time : {stat.st_mtim, stat.st_atim, stat.st_ctim}) {
    EXPECT_EQ(time.tv_sec, 1);
    EXPECT_EQ(time.tv_nsec, 500'000'000);
  }
}

class ReadInSmallPieces : public EmptyFile {
 public:
  std::uint32_t advised_read() const noexcept override { return 8192; }
};

TEST(Attributes, AdviseReadsAsTheFileDoes) {
  Node node = file_node(0);
  node.file = std::make_shared<ReadInSmallPieces>();
  EXPECT_EQ(attributes(node, MountOptions()).st_blksize, 8192);
  node.file = nullptr;
  EXPECT_EQ(attributes(node, MountOptions()).st_blksize, 1 << 20);
}

class SizedWhenAsked : public EmptyFile {
 public:
  explicit SizedWhenAsked(bool fails) : fails_(fails) {}
  std::uint64_t stat_size() const override {
    if (fails_) throw std::runtime_error("no");
    return 513;
  }

 private:
  bool fails_;
};

TEST(Attributes, OfAFileWhoseContentsChange) {
  Node node = file_node(0);
  EXPECT_EQ(attributes(node, MountOptions()).st_size, 0);
  node.file = std::make_shared<SizedWhenAsked>(false);
  EXPECT_EQ(attributes(node, MountOptions()).st_size, 513);
  EXPECT_EQ(attributes(node, MountOptions()).st_blocks, 2);
  node.file = std::make_shared<SizedWhenAsked>(true);
  EXPECT_EQ(attributes(node, MountOptions()).st_size, 0);
}

TEST(Attributes, OfADirectory) {
  Node node;
  node.listed_directories = 4;
  const struct stat stat = attributes(node, MountOptions());
  EXPECT_EQ(stat.st_mode, S_IFDIR | 0555U);
  EXPECT_EQ(stat.st_nlink, 6U);
}

TEST(Attributes, HaveTheModesThatWereAskedFor) {
  MountOptions options;
  options.file_mode = 0440;
  options.dir_mode = 0550;
  EXPECT_EQ(attributes(file_node(1), options).st_mode, S_IFREG | 0440U);
  EXPECT_EQ(attributes(Node(), options).st_mode, S_IFDIR | 0550U);
}

TEST(Attributes, OfALink) {
  Node node;
  node.link = "steps/9_50";
  node.size = 10;
  const struct stat stat = attributes(node, MountOptions());
  EXPECT_EQ(stat.st_mode, S_IFLNK | 0777U);
  EXPECT_EQ(stat.st_nlink, 1U);
  EXPECT_EQ(stat.st_size, 10);
}

TEST(Attributes, OfAPendingDirectoryPromiseNoNumberOfDirectories) {
  Node node;
  node.pending = true;
  EXPECT_EQ(attributes(node, MountOptions()).st_nlink, 1U);
}

TEST(Attributes, ANodesOwnTimeWins) {
  MountOptions options;
  options.mtime_ns = 5'000'000'000;
  Node node;
  EXPECT_EQ(attributes(node, options).st_mtim.tv_sec, 5);
  node.mtime_ns = 7'000'000'000;
  EXPECT_EQ(attributes(node, options).st_mtim.tv_sec, 7);
}

TEST(Attributes, BlocksOfSizesAtTheirLimits) {
  EXPECT_EQ(attributes(file_node(0), {}).st_blocks, 0);
  EXPECT_EQ(attributes(file_node(1), {}).st_blocks, 1);
  EXPECT_EQ(attributes(file_node(512), {}).st_blocks, 1);
  constexpr std::uint64_t kMax =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - 4096;
  EXPECT_EQ(attributes(file_node(kMax), {}).st_size, static_cast<off_t>(kMax));
  EXPECT_EQ(attributes(file_node(kMax), {}).st_blocks, static_cast<blkcnt_t>(kMax / 512 + 1));
}

TEST(Attributes, TimesBefore1970KeepPositiveNanoseconds) {
  MountOptions options;
  options.mtime_ns = -1;
  const struct stat stat = attributes(file_node(1), options);
  EXPECT_EQ(stat.st_mtim.tv_sec, -1);
  EXPECT_EQ(stat.st_mtim.tv_nsec, 999'999'999);
}

TEST(Attributes, OfTheWholeTree) {
  TreeBuilder builder;
  builder.add_file("x", testing_vfs::file_of(4097));
  const struct statvfs statistics = reshardfs::statistics(std::move(builder).build());
  EXPECT_EQ(statistics.f_files, 2U);
  EXPECT_EQ(statistics.f_bsize, 4096U);
  EXPECT_EQ(statistics.f_frsize, 4096U);
  EXPECT_EQ(statistics.f_blocks, 2U);
  EXPECT_EQ(statistics.f_bfree, 0U);
  EXPECT_EQ(statistics.f_namemax, 255U);
}

}  // namespace
}  // namespace reshardfs
