// SPDX-License-Identifier: Apache-2.0
#include "export/block_journal.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "export/partial_file.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

constexpr std::size_t kBlock = 4096;
const BlockJournal::Subject kSubject{"0123abc", 3 * kBlock + 10};

std::vector<std::byte> block(int value, std::size_t size = kBlock) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

class BlockJournalTest : public testing::Test {
 protected:
  void SetUp() override { folder_.emplace(Folder::open(dir_.path())); }

  /// As a process leaves it that is killed after two blocks.
  void leave_two_blocks() const {
    BlockJournal journal(folder_->make({}), "file", kSubject, kBlock);
    journal.add(kBlock, block(1));
    journal.add(0, block(0));
  }
  std::unique_ptr<BlockJournal> resumed(const BlockJournal::Subject& subject = kSubject,
                                        std::size_t most = kBlock) const {
    return BlockJournal::resume(*folder_, "file", subject, most);
  }
  std::filesystem::path path() const { return dir_.path() / journal_name("file"); }
  std::string text() const {
    std::ifstream in(path());
    return {std::istreambuf_iterator<char>(in), {}};
  }

  test::TempDir dir_;
  std::optional<Folder> folder_;
};

TEST_F(BlockJournalTest, KnowsTheBlocksOfAProcessBefore) {
  leave_two_blocks();
  const auto journal = resumed();
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->block_bytes(), kBlock);
  EXPECT_TRUE(journal->knows(0));
  EXPECT_TRUE(journal->matches(0, block(0)));
  EXPECT_TRUE(journal->matches(kBlock, block(1)));
  EXPECT_FALSE(journal->matches(kBlock, block(0))) << "other bytes";
  EXPECT_FALSE(journal->matches(kBlock, block(1, kBlock - 1)));
  EXPECT_FALSE(journal->knows(2 * kBlock));
  EXPECT_FALSE(journal->matches(2 * kBlock, block(0)));
}

TEST_F(BlockJournalTest, GoesOnBehindALineThatWasTorn) {
  leave_two_blocks();
  const std::string whole = text();
  std::ofstream(path(), std::ios::app) << "8192 0123456789";
  {
    const auto journal = resumed();
    ASSERT_TRUE(journal);
    EXPECT_EQ(text(), whole);
    journal->add(3 * kBlock, block(3, 10));
  }
  const auto journal = resumed();
  ASSERT_TRUE(journal);
  EXPECT_TRUE(journal->matches(0, block(0)));
  EXPECT_FALSE(journal->knows(2 * kBlock));
  EXPECT_TRUE(journal->matches(3 * kBlock, block(3, 10)));
}

TEST_F(BlockJournalTest, IsOfNoUseForOtherBytes) {
  leave_two_blocks();
  EXPECT_FALSE(resumed({"0123abd", kSubject.size}));
  EXPECT_FALSE(resumed({kSubject.identity, kSubject.size + 1}));
  EXPECT_FALSE(resumed(kSubject, kBlock - 1)) << "there is no memory for such blocks";
  EXPECT_TRUE(resumed(kSubject, 2 * kBlock));
  EXPECT_FALSE(BlockJournal::resume(*folder_, "other", kSubject, kBlock));
}

TEST_F(BlockJournalTest, IsNotReadIfItIsDamaged) {
  leave_two_blocks();
  const std::string whole = text();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(path(), std::ios::trunc) << whole.substr(0, length);
    const auto journal = resumed();
    if (!journal) continue;
    EXPECT_TRUE(journal->matches(kBlock, block(1))) << length;
    EXPECT_FALSE(journal->knows(0)) << length;
  }
  std::ofstream(path(), std::ios::trunc) << whole << whole;
  EXPECT_TRUE(resumed());
  std::filesystem::remove(path());
  std::filesystem::create_symlink("elsewhere", path());
  EXPECT_FALSE(resumed());
  std::filesystem::remove(path());
  leave_two_blocks();
  std::filesystem::create_hard_link(path(), dir_.path() / "second name");
  EXPECT_FALSE(resumed());
}

TEST_F(BlockJournalTest, StaysWithItsPartialFileAlone) {
  const std::string partial = partial_name("file");
  const auto exists = [&](const std::string& name) {
    return std::filesystem::exists(dir_.path() / name);
  };
  dir_.write(partial, "x");
  leave_two_blocks();
  EXPECT_EQ(remove_partial_files(*folder_, {"file", "other"}, Writers::kOne),
            std::set<std::string>{"file"});
  EXPECT_TRUE(exists(partial) && exists(journal_name("file")));
  EXPECT_TRUE(remove_partial_files(*folder_, {"file"}, Writers::kMany).empty());
  EXPECT_FALSE(exists(partial) || exists(journal_name("file")));
  leave_two_blocks();
  EXPECT_TRUE(remove_partial_files(*folder_, {"file"}, Writers::kOne).empty());
  EXPECT_FALSE(exists(journal_name("file"))) << "without its partial file";
  dir_.write(partial, "x");
  EXPECT_TRUE(remove_partial_files(*folder_, {"file"}, Writers::kOne).empty());
  EXPECT_FALSE(exists(partial)) << "without its journal";
}

TEST_F(BlockJournalTest, LeavesOutWhatCannotBeWritten) {
  std::filesystem::create_directory(path());
  BlockJournal journal(folder_->make({}), "file", kSubject, kBlock);
  journal.add(0, block(0));
  EXPECT_FALSE(resumed());
}

}  // namespace
}  // namespace reshardfs
