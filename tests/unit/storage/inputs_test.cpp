// SPDX-License-Identifier: Apache-2.0
#include "storage/inputs.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class InputsTest : public ::testing::Test {
 protected:
  std::string read(const fs::path& path, const SourceTreePtr& tree) {
    return read_small_file(path, 100, tree);
  }
  /// What a file is recorded as.
  static std::vector<Input> recorded(const fs::path& path) {
    const auto inputs = std::make_shared<Inputs>();
    read_small_file(path, 100, recording(nullptr, inputs));
    return inputs->list();
  }

  test::TempDir dir_;
  InputsPtr inputs_ = std::make_shared<Inputs>();
};

TEST_F(InputsTest, RecordsTheContentsOfWhatIsRead) {
  const SourceTreePtr tree = recording(nullptr, inputs_);
  const fs::path later = dir_.write("b", "text");
  const fs::path first = dir_.write("a", "text");
  for (const fs::path& path : {later, first, later}) EXPECT_EQ(read(path, tree), "text");
  const std::vector<Input> all = inputs_->list();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].path, first);
  EXPECT_EQ(all[1].path, later);
  EXPECT_EQ(all[0].content, all[1].content);
  EXPECT_TRUE(all[0].version.empty());

  dir_.write("b", "TEXT");
  EXPECT_NE(recorded(later).front(), all[1]);
  dir_.write("b", "text");
  EXPECT_EQ(recorded(later).front(), all[1]) << "times do not count";
}

TEST_F(InputsTest, RecordsTheVersionOfWhatStaysOpen) {
  const fs::path path = dir_.write("tokenizer.json", "{}");
  const SourceTreePtr tree = recording(nullptr, inputs_);
  record_open(path, *open_file(path, tree), tree);
  const std::vector<Input> all = inputs_->list();
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_TRUE(all[0].content.empty());
  EXPECT_FALSE(all[0].version.empty());
  record_open(path, *open_file(path), nullptr);
  EXPECT_EQ(inputs_->list(), all);
}

TEST_F(InputsTest, RefusesTwoVersionsOfAFile) {
  const SourceTreePtr tree = recording(nullptr, inputs_);
  const fs::path path = dir_.write("config.json", "{}");
  read(path, tree);
  dir_.write("config.json", "{ }");
  test::expect_error(ErrorKind::kChanged, {"config.json", "changed while"},
                     [&] { read(path, tree); });
  test::expect_error(ErrorKind::kChanged, {"config.json", "changed while"},
                     [&] { record_open(path, *open_file(path), tree); });
}

TEST_F(InputsTest, RecordsNothingThatChangesNoByte) {
  const SourceTreePtr tree = recording(nullptr, inputs_);
  const fs::path path = dir_.write("latest", "step_1");
  EXPECT_EQ(read(path, unrecorded(tree)), "step_1");
  EXPECT_EQ(path_kind(path, tree), PathKind::kOther);
  EXPECT_THAT(list_directory(dir_.path(), tree), SizeIs(1));
  open_file(path, tree);
  EXPECT_THAT(inputs_->list(), IsEmpty());
  EXPECT_EQ(recording(nullptr, nullptr), nullptr);
  EXPECT_EQ(unrecorded(nullptr), nullptr);
}

TEST_F(InputsTest, KeepsTheTreeThatItRecords) {
  const auto linkless = std::make_shared<const LinklessTree>(dir_.path());
  const SourceTreePtr tree = recording(linkless, inputs_);
  EXPECT_TRUE(refuses_links(tree));
  EXPECT_FALSE(refuses_links(recording(nullptr, inputs_)));
  EXPECT_FALSE(refuses_links(nullptr));
  EXPECT_EQ(unrecorded(tree), linkless);
  fs::create_symlink(dir_.write("real", "text"), dir_.path() / "link");
  EXPECT_EQ(read(dir_.path() / "real", tree), "text");
  test::expect_error(ErrorKind::kBadInput, {"symbolic link"},
                     [&] { read(dir_.path() / "link", tree); });
  EXPECT_THAT(inputs_->list(), SizeIs(1));
}

TEST_F(InputsTest, ReadsSavedFilesAsTheyWere) {
  const fs::path path = dir_.write("config.json", "old");
  const fs::path gone = dir_.write("params.json", "{}");
  const SourceTreePtr before = recording(nullptr, inputs_);
  for (const fs::path& file : {path, gone}) {
    read(file, before);
    record_open(file, *open_file(file, before), before);
  }
  dir_.write("config.json", "new contents");
  fs::remove(gone);
  const auto again = std::make_shared<Inputs>(inputs_->saved());
  const SourceTreePtr tree = recording(nullptr, again);
  EXPECT_EQ(read(path, tree), "old");
  EXPECT_EQ(path_kind(gone, tree), PathKind::kOther);
  EXPECT_EQ(read(gone, tree), "{}");
  for (const fs::path& file : {path, gone}) record_open(file, *open_file(file, tree), tree);
  EXPECT_EQ(again->list(), inputs_->list());
  EXPECT_EQ(read(path, recording(nullptr, std::make_shared<Inputs>())), "new contents");
}

TEST_F(InputsTest, ReadsAnyRangeOfASavedFile) {
  const fs::path path = dir_.write("config.json", "0123456789");
  read(path, recording(nullptr, inputs_));
  fs::remove(path);
  const ByteSourcePtr saved =
      open_file(path, recording(nullptr, std::make_shared<Inputs>(inputs_->saved())));
  std::string out(4, '?');
  saved->read_at(3, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(out, "3456");
  test::expect_error(ErrorKind::kBadInput, {"config.json", "has only 10"},
                     [&] { saved->read_at(7, std::as_writable_bytes(std::span(out))); });
}

/// On a server, times may be those of a list or of an answer.
TEST_F(InputsTest, RefusesAnotherContentOfARemoteFile) {
  /// A file of a server.
  class Remote final : public ByteSource {
   public:
    explicit Remote(ByteSourcePtr file) : file_(std::move(file)) {}
    const std::string& name() const override { return file_->name(); }
    std::uint64_t size() const override { return file_->size(); }
    std::int64_t mtime_ns() const override { return file_->mtime_ns(); }
    FileStamp stamp() const override { return file_->stamp(); }
    bool is_remote() const noexcept override { return true; }
    void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
      file_->read_at(offset, out);
    }
    void check_unchanged() const override {}

   private:
    const ByteSourcePtr file_;
  };
  const fs::path path = dir_.write("config.json", "{}");
  const Remote file(open_file(path));
  inputs_->add_read(path, file, "{}");
  inputs_->add_read(path, file, "{}");
  test::expect_error(ErrorKind::kChanged, {"config.json", "changed while"},
                     [&] { inputs_->add_read(path, file, "{ }"); });
}

/// It is what makes lists of servers come at once.
TEST_F(InputsTest, TellsTheTreeThatItRecordsOfLists) {
  class Tree final : public SourceTree {
   public:
    ByteSourcePtr open_source(const fs::path& path) const override { return open_file(path); }
    std::vector<DirectoryEntry> list(const fs::path& path) const override {
      return list_directory(path);
    }
    PathKind kind(const fs::path& path) const override { return path_kind(path); }
    std::int64_t known_mtime_ns(const fs::path& /*path*/) const override { return 0; }
    void foresee_lists(std::span<const fs::path> paths) const override { foreseen += paths.size(); }
    mutable std::size_t foreseen = 0;
  };
  const auto tree = std::make_shared<const Tree>();
  const std::vector<fs::path> paths{dir_.path(), dir_.path() / "below"};
  recording(tree, inputs_)->foresee_lists(paths);
  EXPECT_EQ(tree->foreseen, 2U);
  recording(nullptr, inputs_)->foresee_lists(paths);
}

TEST_F(InputsTest, SavesNoLargeFile) {
  const SourceTreePtr tree = recording(nullptr, inputs_);
  const fs::path large = dir_.write("index.json", std::string(Inputs::kMostBytesOfFile + 1, ' '));
  read_small_file(large, 1 << 20, tree);
  EXPECT_THAT(inputs_->saved(), IsEmpty());
  const std::string text(Inputs::kMostBytesOfFile, ' ');
  for (std::uint64_t i = 0; i < Inputs::kMostSavedBytes / text.size() + 3; ++i) {
    read_small_file(dir_.write("map_" + std::to_string(i), text), 1 << 20, tree);
  }
  EXPECT_THAT(inputs_->saved(), SizeIs(Inputs::kMostSavedBytes / text.size()));
}

}  // namespace
}  // namespace reshardfs
