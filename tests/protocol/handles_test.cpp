// SPDX-License-Identifier: Apache-2.0
/// Openings and their ends, also such as nobody has asked for.
#include <cerrno>
#include <random>
#include <utility>
#include <vector>

#include "protocol/protocol_test.h"

namespace reshardfs::testing_protocol {
namespace {

using ProtocolHandles = ProtocolTest;

constexpr std::uint64_t kWild = 0x5555'dead'beef'0010;

TEST_F(ProtocolHandles, ListingsHoldTheirGenerationUntilTheyEnd) {
  const std::uint64_t changing = node("changing");
  ASSERT_TRUE(holds_trees(0));
  const std::uint64_t handle = open(changing, FUSE_OPENDIR);
  EXPECT_TRUE(holds_trees(1));
  EXPECT_EQ(error_of(FUSE_READDIR, changing, read_body(handle, 0, 4096)), 0);
  EXPECT_TRUE(holds_trees(1));
  EXPECT_EQ(error_of(FUSE_RELEASEDIR, changing, release_body(handle)), 0);
  EXPECT_TRUE(holds_trees(0));
}

TEST_F(ProtocolHandles, ThatWereNeverGivenAreStaleAndDoNoHarm) {
  const std::uint64_t changing = node("changing");
  const std::uint64_t status = node("status");
  const std::uint64_t listing = open(changing, FUSE_OPENDIR);
  const std::uint64_t opening = open(status);
  for (const std::uint64_t wild : {std::uint64_t{4711}, kWild, ~std::uint64_t{0}}) {
    EXPECT_EQ(error_of(FUSE_READDIR, changing, read_body(wild, 0, 4096)), ESTALE);
    EXPECT_EQ(error_of(FUSE_READDIRPLUS, changing, read_body(wild, 5, 4096)), ESTALE);
    EXPECT_EQ(error_of(FUSE_RELEASEDIR, changing, release_body(wild)), 0);
    // Not the end of an empty file.
    EXPECT_EQ(error_of(FUSE_READ, status, read_body(wild, 0, 4096)), ESTALE);
    EXPECT_EQ(error_of(FUSE_RELEASE, status, release_body(wild)), 0);
    EXPECT_EQ(error_of(FUSE_RELEASE, 4711, release_body(wild)), 0);
  }
  EXPECT_EQ(read(status, opening, 0, 4096).body.size(), kSnapshotBytes);
  EXPECT_EQ(error_of(FUSE_RELEASE, status, release_body(opening)), 0);
  for (int i = 0; i < 2; ++i) {  // the second end is one of nothing
    EXPECT_EQ(error_of(FUSE_RELEASEDIR, changing, release_body(listing)), 0);
  }
  EXPECT_TRUE(holds_snapshots(0));
}

TEST_F(ProtocolHandles, OpenFilesAreThereUntilTheyAreClosed) {
  const std::uint64_t plain = node("dir", "4");
  const std::uint64_t first = open(plain);
  const std::uint64_t second = open(plain);
  EXPECT_EQ(session->served().files.count(), 2U);
  // Of another file, and such as nobody knows: read as they would be without an opening.
  EXPECT_EQ(read(node("dir", "2"), first, 0, 4096).body.size(), kFileBytes[2]);
  EXPECT_EQ(read(plain, 4711, 0, 4096).body.size(), 4096U);
  EXPECT_EQ(session->served().files.count(), 2U);
  EXPECT_EQ(error_of(FUSE_RELEASE, plain, release_body(first)), 0);
  EXPECT_EQ(session->served().files.count(), 1U);
  EXPECT_EQ(read(plain, second, 0, 4096).body.size(), 4096U);
  EXPECT_EQ(error_of(FUSE_RELEASE, plain, release_body(second)), 0);
  EXPECT_EQ(session->served().files.count(), 0U);
}

TEST_F(ProtocolHandles, OfAProcessBeforeAreFoundWithTheirFirstRead) {
  const ServedTree& served = session->served();
  const std::uint64_t plain = node("dir", "4");
  const std::uint64_t status = node("status");
  ASSERT_TRUE(served.openings->add(opening_handle(4712, false), 0));
  ASSERT_TRUE(served.openings->add(opening_handle(4714, true), 0));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(read(plain, opening_handle(4712, false), 0, 4096).body.size(), 4096U);
    EXPECT_EQ(served.files.count(), 1U);
  }
  // Its text has gone with the process.
  EXPECT_EQ(error_of(FUSE_READ, status, read_body(opening_handle(4714, true), 0, 4096)), ESTALE);
  EXPECT_EQ(error_of(FUSE_RELEASE, plain, release_body(opening_handle(4712, false))), 0);
  EXPECT_EQ(error_of(FUSE_RELEASE, status, release_body(opening_handle(4714, true))), 0);
  EXPECT_EQ(served.files.count(), 0U);
  EXPECT_EQ(served.openings->count(), 0U);
}

TEST_F(ProtocolHandles, NoneIsLeftOfAnOpeningWhoseProgramIsGone) {
  const std::uint64_t changing = node("changing");
  const std::uint64_t status = node("status");
  const std::uint64_t plain = node("dir", "4");
  ASSERT_TRUE(holds_trees(0));
  for (const auto& [opcode, inode] : {std::pair{FUSE_OPENDIR, changing},
                                      std::pair{FUSE_OPEN, status}, std::pair{FUSE_OPEN, plain}}) {
    kernel().refuse_next_reply();
    kernel().send(static_cast<std::uint32_t>(opcode), inode, open_body(0));
    EXPECT_TRUE(testing_mount::eventually([] { return refused_reply() == 0; }));
  }
  EXPECT_TRUE(testing_mount::eventually([this] { return source.open_files() == 0; }));
  EXPECT_TRUE(holds_snapshots(0));
  EXPECT_TRUE(holds_trees(0));
  OpeningTable& openings = *session->served().openings;
  EXPECT_TRUE(testing_mount::eventually([&openings] { return openings.count() == 0; }));

  // That of a killed process, whose answer the kernel has taken, counts.
  ASSERT_TRUE(openings.add(opening_handle(kernel().next_unique(), false), 0));
  kernel().refuse_next_reply();
  kernel().send(FUSE_OPEN, plain, open_body(0));
  EXPECT_TRUE(testing_mount::eventually([] { return refused_reply() == 0; }));
  EXPECT_TRUE(testing_mount::eventually([this] { return source.open_files() == 0; }));
  EXPECT_EQ(openings.count(), 1U);
}

TEST_F(ProtocolHandles, NoneIsLeftAfterManyInRandomOrder) {
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  ASSERT_TRUE(holds_trees(0));
  struct Opening {
    std::uint64_t inode = 0;
    std::uint32_t release = 0;
    std::uint64_t handle = 0;
  };
  struct Kind {
    std::uint64_t inode = 0;
    std::uint32_t open = 0;
    std::uint32_t release = 0;
  };
  const std::vector<Kind> kinds = {{node("status"), FUSE_OPEN, FUSE_RELEASE},
                                   {node("dir", "4"), FUSE_OPEN, FUSE_RELEASE},
                                   {node("changing"), FUSE_OPENDIR, FUSE_RELEASEDIR},
                                   {node("dir"), FUSE_OPENDIR, FUSE_RELEASEDIR}};
  std::vector<Opening> openings;
  int snapshots = 0;
  for (int i = 0; i < 5000; ++i) {
    if (openings.empty() || random() % 2 == 0) {
      const Kind& kind = kinds[random() % kinds.size()];
      openings.push_back({kind.inode, kind.release, open(kind.inode, kind.open)});
      if (kind.inode == kinds[0].inode) ++snapshots;
    } else {
      std::swap(openings[random() % openings.size()], openings.back());
      const Opening last = openings.back();
      openings.pop_back();
      if (last.inode == kinds[0].inode) --snapshots;
      ASSERT_EQ(error_of(last.release, last.inode, release_body(last.handle)), 0);
      if (random() % 4 == 0) {
        const std::uint64_t wild = random() % 2 == 0 ? last.handle : kWild + random();
        ASSERT_EQ(error_of(FUSE_RELEASEDIR, last.inode, release_body(wild | 1U << 31U)), 0);
      }
    }
    ASSERT_TRUE(holds_snapshots(snapshots));
  }
  for (const Opening& left : openings) {
    ASSERT_EQ(error_of(left.release, left.inode, release_body(left.handle)), 0);
  }
  EXPECT_EQ(source.open_files(), 0);
  EXPECT_TRUE(holds_snapshots(0));
  EXPECT_TRUE(holds_trees(0));
}

}  // namespace
}  // namespace reshardfs::testing_protocol
