// SPDX-License-Identifier: Apache-2.0
/// Which steps of Checkpoint 2.0 there are, which of them are complete, and how links among their
/// files are met.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/steps.h"
#include "support/errors.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/iteration_samples.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::iteration_directory;
using test::iteration_file;
using test::iteration_metadata;
using test::iteration_tensors;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class IterationStepsTest : public testing::Test {
 protected:
  void add_file(int step, const std::string& name) const {
    dir_.write(iteration_directory(step) + "/" + name, iteration_tensors("w"));
  }
  void add_files(int step, const std::string& kind, int ranks) const {
    for (int rank = 0; rank < ranks; ++rank) add_file(step, iteration_file(kind, rank, ranks));
  }
  void add_metadata(int step, int ranks) const {
    dir_.write(iteration_directory(step) + "/metadata.json", iteration_metadata(ranks));
  }
  void add_step(int step, int ranks) const {
    add_files(step, "model", ranks);
    add_files(step, "opt", ranks);
    add_metadata(step, ranks);
  }
  void remove(int step, const std::string& name) const {
    ASSERT_TRUE(fs::remove(dir_.path() / iteration_directory(step) / name)) << name;
  }
  void track(int step) const {
    dir_.write("latest_checkpointed_iteration.txt", std::to_string(step));
  }
  /// "120 on 0-3", with "incomplete" behind it.
  std::vector<std::string> steps(const std::string& below = "") const {
    std::vector<std::string> out;
    for (const StepInfo& step :
         find_steps(below.empty() ? dir_.path() : dir_.path() / below, CheckpointOptions())) {
      out.push_back(step.name + " on " + format_rank_list(step.ranks) +
                    (step.complete ? "" : " incomplete"));
    }
    return out;
  }

  test::TempDir dir_;
};

TEST_F(IterationStepsTest, AreFoundOldestFirst) {
  for (const int step : {100, 9, 123'456'789, 20}) add_step(step, 2);
  track(123'456'789);
  EXPECT_THAT(steps(), ElementsAre("9 on 0,1", "20 on 0,1", "100 on 0,1", "123456789 on 0,1"));
}

TEST_F(IterationStepsTest, AreIncompleteWhereNewerThanTheTracker) {
  for (const int step : {9, 10, 11}) add_step(step, 2);
  track(10);
  EXPECT_THAT(steps(), ElementsAre("9 on 0,1", "10 on 0,1", "11 on 0,1 incomplete"));
  fs::remove(dir_.path() / "latest_checkpointed_iteration.txt");
  EXPECT_THAT(steps(),
              ElementsAre("9 on 0,1 incomplete", "10 on 0,1 incomplete", "11 on 0,1 incomplete"));
  dir_.write("latest_checkpointed_iteration.txt", "rubbish");
  expect_error(ErrorKind::kBadInput, {"latest_checkpointed_iteration.txt", "'rubbish'"},
               [&] { steps(); });
}

TEST_F(IterationStepsTest, AreIncompleteWhereAFileIsMissing) {
  track(9);
  add_step(9, 3);
  remove(9, iteration_file("opt", 1, 3));
  EXPECT_THAT(steps(), ElementsAre("9 on 0-2 incomplete"));
  remove(9, iteration_file("model", 1, 3));
  EXPECT_THAT(steps(), ElementsAre("9 on 0,2 incomplete"));
  add_file(9, iteration_file("model", 1, 3));
  add_file(9, iteration_file("opt", 1, 3) + ".tmp");
  EXPECT_THAT(steps(), ElementsAre("9 on 0-2 incomplete"));
  add_file(9, iteration_file("opt", 1, 3));
  EXPECT_THAT(steps(), ElementsAre("9 on 0-2"));
}

TEST_F(IterationStepsTest, AreIncompleteWhereAFileStandsForOneBelowTheCount) {
  track(9);
  add_file(9, iteration_file("model", 0, 2));
  add_file(9, iteration_file("model", 5, 2));
  add_metadata(9, 2);
  EXPECT_THAT(steps(), ElementsAre("9 on 0,5 incomplete"));
}

TEST_F(IterationStepsTest, AreIncompleteWithoutMetadata) {
  track(9);
  add_step(9, 2);
  remove(9, "metadata.json");
  EXPECT_THAT(steps(), ElementsAre("9 on 0,1 incomplete"));
}

TEST_F(IterationStepsTest, AreIncompleteWhereCountsDisagree) {
  track(9);
  add_step(9, 2);
  add_file(9, iteration_file("model", 0, 1));
  EXPECT_THAT(steps(), ElementsAre("9 on 0,1 incomplete"));
}

TEST_F(IterationStepsTest, MayHaveAnotherCountForTheOptimizer) {
  track(9);
  add_files(9, "qwen3-model", 2);
  add_files(9, "qwen3-opt", 3);
  add_metadata(9, 2);
  EXPECT_THAT(steps(), ElementsAre("9 on 0-2"));
}

TEST_F(IterationStepsTest, OfASingleCardNeedNoMetadata) {
  track(10);
  add_files(9, "model", 1);
  add_files(9, "opt", 1);
  add_file(10, "whole.safetensors");
  EXPECT_THAT(steps(), ElementsAre("9 on 0", "10 on 0"));
}

TEST_F(IterationStepsTest, AreIncompleteWithoutAnyFile) {
  track(10);
  dir_.make_directory(iteration_directory(8));
  add_metadata(9, 2);
  dir_.write("iteration_00000010/common.json", "{}");
  EXPECT_THAT(steps(), ElementsAre("8 on 0 incomplete", "9 on 0 incomplete", "10 on 0 incomplete"));
}

TEST_F(IterationStepsTest, OfOneDirectoryAreOne) {
  add_step(9, 2);
  add_step(10, 2);
  track(9);
  EXPECT_THAT(steps("iteration_00000009/"), ElementsAre("9 on 0,1"));
  remove(9, "metadata.json");
  EXPECT_THAT(steps("iteration_00000009"), ElementsAre("9 on 0,1 incomplete"));
  fs::rename(dir_.path() / "iteration_00000010", dir_.path() / "best");
  EXPECT_THAT(steps("best"), IsEmpty());
}

class IterationLinksTest : public testing::Test {
 protected:
  IterationLinksTest() {
    for (const std::string& place : {"source/" + iteration_directory(9), std::string("outside")}) {
      for (const int rank : {0, 1}) {
        dir_.write(place + "/" + iteration_file("model", rank, 2), iteration_tensors("w"));
      }
      dir_.write(place + "/metadata.json", iteration_metadata(2));
    }
    dir_.write("source/" + tracker_, "9");
    dir_.write("outside/" + tracker_, "9");
  }
  fs::path source() const { return dir_.path() / "source"; }
  fs::path step() const { return source() / iteration_directory(9); }
  /// What was there leads to what has the same name outside, or to all of that.
  void link(const fs::path& path, const std::string& outside) const {
    fs::remove_all(path);
    fs::create_symlink(dir_.path() / outside, path);
  }
  Discovery find(bool no_symlinks, const fs::path& path) const {
    CheckpointOptions options;
    options.no_symlinks = no_symlinks;
    return discover(path, options);
  }
  /// Refused if links are; else followed, with a note.
  void expect_only_followed(const std::string& name, const fs::path& path) const {
    const Discovery found = find(false, path);
    EXPECT_THAT(found.files, SizeIs(2)) << name;
    EXPECT_THAT(found.notes, Contains(testing::AllOf(HasSubstr("lead out of the source"),
                                                     HasSubstr(name + " to "))));
    expect_error(ErrorKind::kBadInput, {name, "symbolic link", "--no-symlinks"},
                 [&] { find(true, path); });
  }

  const std::string tracker_ = "latest_checkpointed_iteration.txt";
  test::TempDir dir_;
};

TEST_F(IterationLinksTest, AreNone) {
  for (const fs::path& path : {source(), step(), source() / "", step() / ""}) {
    const Discovery found = find(true, path);
    ASSERT_THAT(found.files, SizeIs(2)) << path;
    EXPECT_NE(found.files.front().tree, nullptr);
    EXPECT_THAT(found.notes, IsEmpty());
    CheckpointOptions options;
    options.no_symlinks = true;
    EXPECT_EQ(CheckpointSet::open(path, options).files().size(), 2U) << path;
    EXPECT_THAT(find_steps(path, options), SizeIs(1)) << path;
  }
}

TEST_F(IterationLinksTest, MayBeTheSourceItself) {
  fs::create_directory_symlink(step(), dir_.path() / "iteration_00000010");
  const Discovery found = find(true, dir_.path() / "iteration_00000010");
  EXPECT_THAT(found.files, SizeIs(2));
  EXPECT_EQ(found.step, "10") << "as the user names it";
}

TEST_F(IterationLinksTest, MayBeTheDirectoryOfAStep) {
  link(step(), "outside");
  expect_only_followed(iteration_directory(9), source());
  CheckpointOptions options;
  options.no_symlinks = true;
  expect_error(ErrorKind::kBadInput, {iteration_directory(9), "symbolic link"},
               [&] { find_steps(source(), options); });
}

TEST_F(IterationLinksTest, MayBeAFile) {
  const std::string name = iteration_file("model", 1, 2);
  link(step() / name, "outside/" + name);
  expect_only_followed(name, source());
  expect_only_followed(name, step());
}

TEST_F(IterationLinksTest, MayBeTheMetadata) {
  link(step() / "metadata.json", "outside/metadata.json");
  expect_only_followed("metadata.json", source());
  expect_only_followed("metadata.json", step());
}

TEST_F(IterationLinksTest, MayBeTheTracker) {
  link(source() / tracker_, "outside/" + tracker_);
  expect_only_followed(tracker_, source());
}

TEST_F(IterationLinksTest, OfOtherFilesDoNotMatter) {
  link(step() / "common.json", "nowhere");
  link(source() / "notes.txt", "nowhere");
  link(source() / "other", "outside");
  EXPECT_THAT(find(true, source()).notes, IsEmpty());
  link(step() / "more.safetensors", "outside/" + iteration_file("model", 0, 2));
  EXPECT_THAT(find(true, source()).completeness.doubts, ElementsAre(HasSubstr("more.safetensors")));
}

TEST_F(IterationLinksTest, InsideOfTheSourceAreNotNoted) {
  const std::string name = iteration_file("model", 1, 2);
  fs::rename(step() / name, source() / "kept");
  fs::create_symlink(source() / "kept", step() / name);
  EXPECT_THAT(find(false, source()).notes, Not(Contains(HasSubstr("symbolic link"))));
  EXPECT_THAT(find(false, step()).notes, Contains(HasSubstr("symbolic link")));
}

}  // namespace
}  // namespace reshardfs
