// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/source_links.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_set.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class SourceLinks : public testing::Test {
 protected:
  SourceLinks() {
    dir_.write("source/rank_0/net.ckpt", test::small_record("w"));
    dir_.write("outside/net.ckpt", test::small_record("w"));
    dir_.make_directory("source/rank_1");
  }
  fs::path source() const { return dir_.path() / "source"; }
  std::vector<std::string> notes() const { return CheckpointSet::open(source(), {}).notes(); }
  void expect_refused(const std::string& word) const {
    CheckpointOptions options;
    options.no_symlinks = true;
    expect_error(ErrorKind::kBadInput, {word, "symbolic link", "--no-symlinks"},
                 [&] { CheckpointSet::open(source(), options); });
  }

  test::TempDir dir_;
};

TEST_F(SourceLinks, OutOfTheSourceAreNoted) {
  fs::create_symlink("../../outside/net.ckpt", source() / "rank_1/net.ckpt");
  EXPECT_THAT(notes(), Contains(HasSubstr("rank_1/net.ckpt to " +
                                          (dir_.path() / "outside/net.ckpt").string())));
  expect_refused("rank_1/net.ckpt");
}

TEST_F(SourceLinks, InsideAreNotNotedButRefused) {
  fs::remove(source() / "rank_1");
  fs::create_directory_symlink("rank_0", source() / "rank_1");
  EXPECT_THAT(notes(), Not(Contains(HasSubstr("symbolic link"))));
  expect_refused("rank_1");
}

TEST_F(SourceLinks, OfASnapshotMayLeadToItsBlobs) {
  const fs::path model = dir_.path() / "models--org--m";
  const fs::path snapshot = model / "snapshots/a1";
  dir_.make_directory("models--org--m/snapshots/a1/rank_0");
  dir_.write("models--org--m/blobs/b", test::small_record("w"));
  dir_.write("models--org--m/refs/r", test::small_record("w"));
  fs::create_symlink("../../../blobs/b", snapshot / "rank_0/net.ckpt");
  for (const fs::path& source : {snapshot, model}) {
    EXPECT_THAT(CheckpointSet::open(source, {}).notes(), Not(Contains(HasSubstr("symbolic link"))));
  }
  fs::remove(snapshot / "rank_0/net.ckpt");
  fs::create_symlink("../../../refs/r", snapshot / "rank_0/net.ckpt");
  EXPECT_THAT(CheckpointSet::open(snapshot, {}).notes(), Contains(HasSubstr("refs/r")));
  CheckpointOptions options;
  options.no_symlinks = true;
  expect_error(ErrorKind::kBadInput, {"symbolic link", "--no-symlinks"},
               [&] { CheckpointSet::open(model, options); });
}

TEST_F(SourceLinks, ThatNoPatternFindsDoNotMatter) {
  fs::create_symlink("/nowhere", source() / "rank_1/notes.txt");
  fs::create_directory_symlink("/", source() / "other");
  CheckpointOptions options;
  options.no_symlinks = true;
  EXPECT_EQ(CheckpointSet::open(source(), options).files().size(), 1U);
}

TEST_F(SourceLinks, TheSourceItselfMayBeOne) {
  fs::create_directory_symlink("source", dir_.path() / "link");
  CheckpointOptions options;
  options.no_symlinks = true;
  const CheckpointSet set = CheckpointSet::open(dir_.path() / "link", options);
  EXPECT_EQ(set.files().size(), 1U);
  EXPECT_THAT(set.notes(), Not(Contains(HasSubstr("symbolic link"))));
}

}  // namespace
}  // namespace reshardfs
