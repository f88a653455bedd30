// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/iteration/iteration_set.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "checkpoint/catalogue.h"
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
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kTracker = "latest_checkpointed_iteration.txt";

class IterationSetTest : public testing::Test {
 protected:
  /// A step of so many ranks, each with a row of parameter w.
  void add_step(int step, int ranks) const {
    add_files(iteration_directory(step), ranks);
    dir_.write(iteration_directory(step) + "/metadata.json", iteration_metadata(ranks));
    dir_.write(iteration_directory(step) + "/common.json", "{}");
  }
  void add_files(const std::string& directory, int ranks) const {
    for (int rank = 0; rank < ranks; ++rank) {
      dir_.write(directory + "/" + iteration_file("model", rank, ranks), iteration_tensors("w"));
    }
  }
  void track(const std::string& text) const { dir_.write(kTracker, text); }

  Discovery find(const std::string& step = "latest", const std::string& below = "") const {
    CheckpointOptions options;
    options.step = step;
    return discover(below.empty() ? dir_.path() : dir_.path() / below, options);
  }
  void expect_refused(ErrorKind kind, std::initializer_list<std::string> words,
                      const std::string& step = "latest", const std::string& below = "") const {
    expect_error(kind, words, [&] { find(step, below); });
  }
  /// "3: iteration_.../model-... part 1" for each.
  std::vector<std::string> words(const std::vector<FoundFile>& files) const {
    std::vector<std::string> out;
    for (const FoundFile& file : files) {
      out.push_back(to_string(file.rank) + ": " +
                    file.path.lexically_relative(dir_.path()).string() + " part " +
                    std::to_string(file.part));
    }
    return out;
  }

  test::TempDir dir_;
};

TEST_F(IterationSetTest, IsOfTheStepThatTheTrackerNames) {
  add_step(100, 2);
  add_step(120, 2);
  for (const char* const text : {"100", " \t100\r\n\n", "\v\f100", "00000100"}) {
    track(text);
    const Discovery found = find();
    EXPECT_EQ(found.step, "100");
    EXPECT_THAT(words(found.files),
                ElementsAre("0: iteration_00000100/model-0000000-0000002.safetensors part 0",
                            "1: iteration_00000100/model-0000001-0000002.safetensors part 1"));
    EXPECT_EQ(found.files.back().step, "100");
    EXPECT_EQ(found.files.back().tree, nullptr);
    EXPECT_THAT(found.steps, ElementsAre("100", "120"));
    EXPECT_THAT(found.missing, IsEmpty());
    ASSERT_NE(found.catalogue, nullptr);
    EXPECT_EQ(found.catalogue->ranks().all().size(), 2);
  }
}

TEST_F(IterationSetTest, IsOpened) {
  add_step(100, 2);
  track("100");
  const CheckpointSet set = CheckpointSet::open(dir_.path(), {});
  EXPECT_EQ(set.step(), "100");
  EXPECT_THAT(set.steps(), ElementsAre("100"));
  EXPECT_EQ(set.root(), dir_.path());
  EXPECT_THAT(set.notes(), IsEmpty());
  ASSERT_EQ(set.files().size(), 2U);
  EXPECT_NE(set.find(Rank(1))->index->find("w"), nullptr);
  ASSERT_NE(set.catalogue(), nullptr);
  EXPECT_THAT(set.catalogue()->required_names(), ElementsAre("w"));
}

TEST_F(IterationSetTest, IsOfTheStepThatIsNamed) {
  add_step(99, 1);
  add_step(100, 2);
  add_step(1'234'567'890, 1);
  track("100");
  EXPECT_EQ(find("99").step, "99");
  EXPECT_EQ(find("00099").step, "99");
  EXPECT_EQ(find("1234567890").step, "1234567890");
  EXPECT_THAT(find("99").steps, ElementsAre("99", "100", "1234567890"));
  fs::remove(dir_.path() / kTracker);
  EXPECT_EQ(find("99").step, "99");
  EXPECT_THAT(find("99").notes, IsEmpty());
  track("rubbish");
  EXPECT_EQ(find("99").step, "99");
}

TEST_F(IterationSetTest, IsRefusedWithoutTheStepThatIsNamed) {
  add_step(99, 1);
  add_step(100, 1);
  track("100");
  for (const char* const step :
       {"101", "1_99", "", "-99", "99 ", "x", "../99", "99999999999999999999999999"}) {
    expect_refused(ErrorKind::kMissing,
                   {"no directory of step '" + std::string(step) + "'", "99, 100", "--step"}, step);
  }
  expect_refused(ErrorKind::kUsage, {"--step all", "mount", "99, 100"}, "all");
}

TEST_F(IterationSetTest, IsRefusedWithoutATracker) {
  add_step(99, 1);
  expect_refused(ErrorKind::kMissing, {kTracker, "available: 99", "--step"});
}

TEST_F(IterationSetTest, IsRefusedWithATrackerThatNamesNoStep) {
  add_step(99, 1);
  track("100");
  expect_refused(ErrorKind::kMissing, {kTracker, "'100'", "does not exist", "available: 99"});
  for (const std::string text :
       {"", " \n", "x", "99 100", "9_9", "-99", "+99", "release", "9\n9", "0x63"}) {
    track(text);
    expect_refused(ErrorKind::kBadInput, {kTracker, "should name the last step", "--step"});
  }
  track(std::string("99\0", 3));
  expect_refused(ErrorKind::kBadInput, {kTracker});
  track(std::string(5000, '9'));
  expect_refused(ErrorKind::kBadInput, {kTracker});
  track(std::string(4000, '9'));
  expect_refused(ErrorKind::kMissing, {kTracker, "does not exist"});
  fs::remove_all(dir_.path() / iteration_directory(99));
  track("99");
  expect_refused(ErrorKind::kMissing, {"'99'", "available: none"});
}

TEST_F(IterationSetTest, ListsTheNewestOfManySteps) {
  for (int step = 1; step <= 25; ++step) dir_.make_directory(iteration_directory(step));
  expect_refused(ErrorKind::kMissing, {"available: ..., 6, 7,", "24, 25;"}, "30");
}

TEST_F(IterationSetTest, SaysWhichOtherStepsThereAre) {
  for (const int step : {8, 9, 10, 11}) add_step(step, 1);
  track("10");
  EXPECT_THAT(find().notes,
              ElementsAre("using step 10; also available: 8, 9",
                          AllOf(HasSubstr("newer than the step that"), HasSubstr(kTracker),
                                HasSubstr("perhaps not complete: 11"))));
  EXPECT_THAT(find("9").notes, IsEmpty());
  EXPECT_THAT(find("10").notes, IsEmpty());
  EXPECT_THAT(find("11").notes,
              ElementsAre("step 11 is newer than the one that " + std::string(kTracker) +
                          " names: it may not be complete"));
}

TEST_F(IterationSetTest, MayBeTheDirectoryOfAStep) {
  add_step(100, 2);
  add_step(120, 2);
  track("120");
  for (const std::string below : {"iteration_00000100", "iteration_00000100/"}) {
    for (const std::string step : {"latest", "100"}) {
      const Discovery found = find(step, below);
      EXPECT_EQ(found.step, "100");
      EXPECT_THAT(found.steps, ElementsAre("100"));
      EXPECT_THAT(found.files, testing::SizeIs(2));
      EXPECT_THAT(found.notes, IsEmpty());
      EXPECT_NE(found.catalogue, nullptr);
    }
    expect_refused(ErrorKind::kMissing,
                   {"iteration_00000100", "step 100, not of step '120'", "--step"}, "120", below);
    expect_refused(ErrorKind::kUsage, {"step 100 alone"}, "all", below);
  }
}

TEST_F(IterationSetTest, MayBeADirectoryWithAnotherName) {
  add_files("best", 2);
  dir_.write("best/metadata.json", iteration_metadata(2));
  const Discovery found = find("latest", "best");
  EXPECT_EQ(found.step, "");
  EXPECT_THAT(found.steps, IsEmpty());
  EXPECT_THAT(found.files, testing::SizeIs(2));
  expect_refused(ErrorKind::kMissing, {"best", "not of step '7'"}, "7", "best");
}

TEST_F(IterationSetTest, IsRefusedWithoutMetadataOfSeveralRanks) {
  add_files(iteration_directory(100), 2);
  track("100");
  expect_refused(ErrorKind::kMissing, {"iteration_00000100", "metadata.json", "files of 2 ranks",
                                       "model-0000000-0000002.safetensors", "another step"});
  expect_refused(ErrorKind::kMissing, {"metadata.json"}, "latest", iteration_directory(100));
}

TEST_F(IterationSetTest, OfOneRankIsWholeWithoutMetadata) {
  const std::string directory = iteration_directory(100) + "/";
  dir_.write(directory + iteration_file("model", 0, 1), iteration_tensors("w"));
  dir_.write(directory + iteration_file("opt", 0, 1), iteration_tensors("adam_m.w"));
  dir_.write(directory + "common.json", "{}");
  track("100");
  const Discovery found = find();
  EXPECT_THAT(words(found.files),
              ElementsAre("0: " + directory + "model-0000000-0000001.safetensors part 0",
                          "0: " + directory + "opt-0000000-0000001.safetensors part 1"));
  EXPECT_EQ(found.catalogue, nullptr);
  EXPECT_THAT(found.notes, IsEmpty());
  const CheckpointSet set = CheckpointSet::open(dir_.path(), {});
  EXPECT_EQ(set.files_of(Rank(0)).size(), 2U);
  dir_.write(directory + "more.safetensors", iteration_tensors("adam_m.w"));
  expect_error(ErrorKind::kBadInput, {"'adam_m.w'", "two parts", "more.safetensors"},
               [&] { CheckpointSet::open(dir_.path(), {}); });
}

TEST_F(IterationSetTest, MayHaveWholeFilesWithAnyNames) {
  dir_.write("iteration_00000005/a.safetensors", iteration_tensors("a"));
  dir_.write("iteration_00000005/b.safetensors", iteration_tensors("b"));
  track("5");
  EXPECT_THAT(find().files, testing::SizeIs(2));
  EXPECT_EQ(find("latest", "iteration_00000005").step, "5");
}

TEST_F(IterationSetTest, IsRefusedWithoutAnyFile) {
  dir_.write("iteration_00000005/common.json", "{}");
  track("5");
  expect_refused(ErrorKind::kMissing, {"iteration_00000005", "no file of the step"});
  dir_.write("iteration_00000005/metadata.json", iteration_metadata(1));
  expect_refused(ErrorKind::kMissing, {"iteration_00000005", "no file of the step"});
}

TEST_F(IterationSetTest, IsNoPublishedModel) {
  for (const std::string published : {"model.safetensors", "a.model.safetensors.index.json"}) {
    const std::string directory = "iteration_" + std::string(8, published[0] == 'm' ? '1' : '2');
    add_files(directory, 2);
    dir_.write(directory + "/metadata.json", iteration_metadata(2));
    dir_.write(directory + "/" + published, iteration_tensors("w"));
    EXPECT_FALSE(discover_iterations(dir_.path() / directory, {}, nullptr));
    EXPECT_FALSE(find_iteration_steps(dir_.path() / directory, nullptr));
  }
}

TEST_F(IterationSetTest, IsNoDirectoryOfOtherFiles) {
  dir_.write("rank_0/net-1_5.safetensors", iteration_tensors("w"));
  dir_.write("iteration_5/a.safetensors", iteration_tensors("w"));
  dir_.write("iteration_00000005", "no directory");
  EXPECT_FALSE(discover_iterations(dir_.path(), {}, nullptr));
  EXPECT_FALSE(find_iteration_steps(dir_.path(), nullptr));
  EXPECT_EQ(find().step, "1_5");
}

TEST_F(IterationSetTest, IsRefusedBesideRanksDirectories) {
  add_step(100, 1);
  track("100");
  dir_.write("rank_0/net-1_5.safetensors", iteration_tensors("w"));
  expect_refused(ErrorKind::kBadInput,
                 {"iteration_", "rank_{rank}/*.safetensors", "--src-pattern"});
  EXPECT_EQ(find("latest", iteration_directory(100)).step, "100");
}

TEST_F(IterationSetTest, IsNotLookedForWithAPattern) {
  add_step(100, 2);
  track("100");
  CheckpointOptions options;
  options.pattern = "iteration_{step}/model-{rank}-*.safetensors";
  options.step = "00000100";
  const Discovery found = discover(dir_.path(), options);
  EXPECT_EQ(found.catalogue, nullptr);
  EXPECT_EQ(found.step, "00000100");
  EXPECT_THAT(found.files, testing::SizeIs(2));
  EXPECT_EQ(find_steps(dir_.path(), options).front().name, "00000100");
}

TEST_F(IterationSetTest, NamesTheFilesThatAreMissing) {
  add_step(100, 3);
  track("100");
  fs::remove(dir_.path() / iteration_directory(100) / iteration_file("model", 1, 3));
  const Discovery found = find();
  EXPECT_THAT(words(found.files),
              ElementsAre("0: iteration_00000100/model-0000000-0000003.safetensors part 0",
                          "2: iteration_00000100/model-0000002-0000003.safetensors part 2"));
  EXPECT_THAT(words(found.missing),
              ElementsAre("1: iteration_00000100/model-0000001-0000003.safetensors part 1"));
  EXPECT_THAT(found.notes, ElementsAre(AllOf(HasSubstr("missing, though metadata.json"),
                                             HasSubstr("model-0000001-0000003.safetensors"))));
  EXPECT_EQ(found.catalogue->ranks().all().size(), 3);
}

TEST_F(IterationSetTest, LeavesFilesAsideThatTheMetadataDoesNotName) {
  add_step(100, 2);
  track("100");
  const std::string directory = iteration_directory(100) + "/";
  dir_.write(directory + "other.safetensors", iteration_tensors("w"));
  dir_.write(directory + iteration_file("model", 0, 2) + ".tmp", "x");
  dir_.write(directory + "model-0000001-0000002.tmp", "x");
  dir_.make_directory(directory + "d.safetensors");
  const Discovery found = find();
  EXPECT_THAT(found.files, testing::SizeIs(2));
  EXPECT_THAT(found.completeness.doubts,
              ElementsAre(AllOf(HasSubstr("are not read"), HasSubstr("/other.safetensors"),
                                Not(HasSubstr("d.safetensors")), Not(HasSubstr("tmp")))));
}

TEST_F(IterationSetTest, IsRefusedWithBrokenMetadata) {
  add_step(100, 2);
  track("100");
  const std::string file = iteration_directory(100) + "/metadata.json";
  dir_.write(file, "{");
  expect_refused(ErrorKind::kBadInput, {file});
  dir_.write(file, test::with_text(iteration_metadata(2), "\"storage_rank\": 1",
                                   "\"storage_rank\": 1048576"));
  expect_refused(ErrorKind::kBadInput, {file, "rank 1048576"});
  fs::remove(dir_.path() / file);
  dir_.make_directory(file);
  EXPECT_THROW(find(), Error);
}

}  // namespace
}  // namespace reshardfs
