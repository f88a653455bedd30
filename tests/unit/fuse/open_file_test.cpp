// SPDX-License-Identifier: Apache-2.0
#include "fuse/open_file.h"

#include <cstdint>
#include <utility>

#include <gtest/gtest.h>

#include "unit/vfs/sized_file.h"

namespace reshardfs {
namespace {

class FileOfEffort final : public testing_vfs::SizedFile {
 public:
  FileOfEffort(std::uint64_t size, Effort effort) : SizedFile(size), effort_(effort) {}
  Effort effort() const noexcept override { return effort_; }

 private:
  Effort effort_;
};

Node node_of(std::uint64_t size, Effort effort) {
  Node node;
  node.inode = 7;
  node.file = std::make_shared<FileOfEffort>(size, effort);
  node.size = size;
  node.view = 3;
  return node;
}

TEST(OpenFile, IsWhatItsNodeIs) {
  const OpenFile open(node_of(100, Effort::kReads));
  EXPECT_EQ(open.inode, 7U);
  EXPECT_EQ(open.size, 100U);
  EXPECT_EQ(open.view, 3);
  EXPECT_EQ(open.wait, WaitClass::kRead);
  EXPECT_EQ(OpenFile(node_of(100, Effort::kComputes)).wait, WaitClass::kMade);
  EXPECT_EQ(OpenFile(node_of(100, Effort::kNone)).wait, std::nullopt);
}

TEST(OpenFile, CutsReadsAtItsEnd) {
  const OpenFile open(node_of(100, Effort::kReads));
  const auto part = [&open](std::uint64_t offset, std::uint64_t bytes) {
    const FilePart cut = open.part(offset, bytes);
    return std::pair(cut.offset, cut.bytes);
  };
  EXPECT_EQ(part(0, 100), std::pair(std::uint64_t{0}, std::uint64_t{100}));
  EXPECT_EQ(part(90, 20), std::pair(std::uint64_t{90}, std::uint64_t{10}));
  EXPECT_EQ(part(100, 1).second, 0U);
  EXPECT_EQ(part(UINT64_MAX, UINT64_MAX).second, 0U);
  EXPECT_EQ(part(1, UINT64_MAX), std::pair(std::uint64_t{1}, std::uint64_t{99}));
}

TEST(OpenFile, HoldsASnapshotInsteadOfItsFile) {
  OpenFile open(node_of(0, Effort::kComputes));
  open.hold(std::make_shared<FileOfEffort>(30, Effort::kNone));
  EXPECT_EQ(open.size, 30U);
  EXPECT_EQ(open.wait, std::nullopt);
  EXPECT_EQ(open.inode, 7U);
  const OpenFile text(std::make_shared<FileOfEffort>(5, Effort::kNone));
  EXPECT_EQ(text.inode, 0U);
  EXPECT_EQ(text.size, 5U);
}

}  // namespace
}  // namespace reshardfs
