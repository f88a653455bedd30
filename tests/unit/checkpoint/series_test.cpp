// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/series.h"

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/series_names.h"
#include "checkpoint/series/steps.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::expect_error;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

/// The series that a listing of "rank/name" has: "prefix: rank/name rank/name".
class Listing {
 public:
  explicit Listing(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) dir_.write(path, "");
  }

  std::vector<std::string> series(const std::string& pattern = "rank_{rank}/*.ckpt") const {
    const RankFiles found = find_rank_files(dir_.path(), PathPattern(pattern));
    std::map<std::string, std::string> files;
    for (const FoundFile& file : found.files) {
      std::string& line = files[file.series];
      if (line.empty()) line = path_of_series(file.series) + ":";
      line += " " + to_string(file.rank);
      if (!file.step.empty()) line += "@" + file.step;
    }
    std::vector<std::string> lines;
    for (auto& [series, line] : files) lines.push_back(line);
    return lines;
  }

 private:
  test::TempDir dir_;
};

TEST(SeriesNames, AreFileNamesWithoutStepAndPart) {
  EXPECT_THAT(Listing({"rank_0/net-1_9.ckpt", "rank_0/net-2_9.ckpt", "rank_1/net-1_9_part0.ckpt",
                       "rank_1/net-1_9_part1.ckpt", "rank_2/net_part0-2_9.ckpt", "rank_3/net.ckpt"})
                  .series(),
              ElementsAre("rank_{rank}/net: 0@1_9 0@2_9 1@1_9 1@1_9 2@2_9 3"));
}

TEST(SeriesNames, TellASecondRunFromTheFirst) {
  EXPECT_THAT(Listing({"rank_0/net-1_9.ckpt", "rank_1/net_1-1_9.ckpt"}).series(),
              UnorderedElementsAre("rank_{rank}/net: 0@1_9", "rank_{rank}/net_1: 1@1_9"));
  // The number of the run is that of a rank, on each of three ranks.
  EXPECT_THAT(
      Listing({"rank_0/net-1_9.ckpt", "rank_1/net_1-1_9.ckpt", "rank_2/net_2-1_9.ckpt"}).series(),
      UnorderedElementsAre("rank_{rank}/net: 0@1_9", "rank_{rank}/net_1: 1@1_9",
                           "rank_{rank}/net_2: 2@1_9"));
  EXPECT_THAT(
      Listing({"rank_0/net-1_9.ckpt", "rank_0/net_1-1_9.ckpt", "rank_1/net-1_9.ckpt",
               "rank_1/net_1-1_9.ckpt"})
          .series(),
      UnorderedElementsAre("rank_{rank}/net: 0@1_9 1@1_9", "rank_{rank}/net_1: 0@1_9 1@1_9"));
  EXPECT_THAT(
      Listing({"rank_0/other.txt", "rank_1/net_1-1_9.ckpt", "rank_2/net_2-1_9.ckpt"}).series(),
      UnorderedElementsAre("rank_{rank}/net_1: 1@1_9", "rank_{rank}/net_2: 2@1_9"));
}

TEST(SeriesNames, LeaveOutTheRank) {
  EXPECT_THAT(Listing({"rank_0/checkpoint_0.ckpt", "rank_1/checkpoint_1.ckpt",
                       "rank_12/checkpoint_12.ckpt"})
                  .series(),
              ElementsAre("rank_{rank}/checkpoint_{rank}: 0 1 12"));
  EXPECT_THAT(Listing({"rank_1/checkpoint_1.ckpt", "rank_2/checkpoint_2.ckpt"}).series(),
              ElementsAre("rank_{rank}/checkpoint_{rank}: 1 2"));
  EXPECT_THAT(Listing({"rank_4/net4_b-1_1.ckpt", "rank_5/net5_b-1_1.ckpt"}).series(),
              ElementsAre("rank_{rank}/net{rank}_b: 4@1_1 5@1_1"));
  EXPECT_THAT(
      Listing({"rank_7/llama_7b_rank_7-1_1.ckpt", "rank_8/llama_7b_rank_8-1_1.ckpt"}).series(),
      ElementsAre("rank_{rank}/llama_7b_rank_{rank}: 7@1_1 8@1_1"));
  EXPECT_THAT(Listing({"rank_0/net_rank0-1_1.ckpt", "rank_3/net_rank3-1_1.ckpt"}).series(),
              ElementsAre("rank_{rank}/net_rank{rank}: 0@1_1 3@1_1"));
  EXPECT_THAT(Listing({"rank_0/llama_rank_0-1_1.ckpt", "rank_1/llama_rank_1_1-1_1.ckpt"}).series(),
              UnorderedElementsAre("rank_{rank}/llama_rank_{rank}: 0@1_1",
                                   "rank_{rank}/llama_rank_{rank}_1: 1@1_1"));
  EXPECT_THAT(Listing({"a_rank_0-1_1.ckpt", "a_rank_1-1_1.ckpt"}).series("*_rank_{rank}*.ckpt"),
              ElementsAre("a_rank_{rank}: 0@1_1 1@1_1"));
}

TEST(SeriesNames, KeepTheNumberOfAModel) {
  EXPECT_THAT(
      Listing({"rank_0/m0.ckpt", "rank_0/m1.ckpt", "rank_1/m0.ckpt", "rank_1/m1.ckpt"}).series(),
      UnorderedElementsAre("rank_{rank}/m0: 0 1", "rank_{rank}/m1: 0 1"));
  EXPECT_THAT(Listing({"node0/CKP_1-4_32.ckpt", "node1/CKP_1-4_32.ckpt"}).series("node{rank}/*"),
              ElementsAre("node{rank}/CKP_1: 0@4_32 1@4_32"));
}

TEST(SeriesNames, HaveWhatAStarHasTaken) {
  EXPECT_THAT(Listing({"a/r0/w-1_1.ckpt", "b/r1/w-1_1.ckpt"}).series("*/r{rank}/w-{step}.ckpt"),
              UnorderedElementsAre("a/r{rank}/w: 0@1_1", "b/r{rank}/w: 1@1_1"));
  EXPECT_THAT(
      Listing({"s20/r0/x.ckpt", "s30/r0/x.ckpt", "s30/r1/y.ckpt"}).series("s{step}/r{rank}/?.ckpt"),
      UnorderedElementsAre("s{step}/r{rank}/x: 0@20 0@30", "s{step}/r{rank}/y: 1@30"));
  EXPECT_THAT(Listing({"r0/net-50.ckpt", "r0/net-60.ckpt", "r1/net-50.ckpt"})
                  .series("r{rank}/net-{step}.ckpt"),
              ElementsAre("r{rank}/net: 0@50 0@60 1@50"));
}

TEST(SeriesNames, TellBreakpointsApart) {
  EXPECT_EQ(without_breakpoint("net-3_100_breakpoint.ckpt"), "net-3_100.ckpt");
  EXPECT_EQ(without_breakpoint("net_breakpoint-3_100.ckpt"), "net_breakpoint-3_100.ckpt");
  EXPECT_THAT(
      Listing({"rank_0/net-3_100_breakpoint.ckpt", "rank_0/net-3_100.ckpt",
               "rank_0/net_breakpoint-3_100.ckpt"})
          .series(),
      UnorderedElementsAre("rank_{rank}/net: 0@3_100", "rank_{rank}/net_breakpoint: 0@3_100",
                           "rank_{rank}/net_breakpoint: 0@3_100"));
}

class SeriesTest : public testing::Test {
 protected:
  void add(const std::string& file) const { dir_.write(file, test::small_record("w")); }
  static CheckpointOptions with(const std::string& prefix, const std::string& step = "latest") {
    CheckpointOptions options;
    options.prefix = prefix;
    options.step = step;
    return options;
  }
  Discovery found(const CheckpointOptions& options = {}) const {
    return discover(dir_.path(), options);
  }
  std::vector<std::string> files(const CheckpointOptions& options = {}) const {
    std::vector<std::string> names;
    for (const FoundFile& file : found(options).files) {
      names.push_back(file.path.lexically_relative(dir_.path()).string());
    }
    return names;
  }
  std::vector<std::string> steps(const CheckpointOptions& options = {}) const {
    std::vector<std::string> names;
    for (const StepInfo& step : find_steps(dir_.path(), options)) {
      names.push_back(step.name + (step.complete ? "" : " incomplete"));
    }
    return names;
  }
  void expect_refused(ErrorKind kind, std::initializer_list<std::string> words,
                      const CheckpointOptions& options = {}) const {
    expect_error(kind, words, [&] { found(options); });
  }

  test::TempDir dir_;
};

TEST_F(SeriesTest, AreNotMixed) {
  add("rank_0/net-1_9.ckpt");
  add("rank_1/net_1-1_9.ckpt");
  expect_refused(ErrorKind::kBadInput,
                 {dir_.path().string(), "2 runs or models", "--src-prefix net (step 1_9 of 20",
                  "Z on rank 0)", "--src-prefix net_1 (step 1_9 of 20", "Z on rank 1)"});
  EXPECT_THAT(files(with("net")), ElementsAre("rank_0/net-1_9.ckpt"));
  EXPECT_THAT(found(with("net")).warnings,
              ElementsAre("rank 1 missing: no file of net there, only of other runs or models"));
  EXPECT_THAT(files(with("net_1")), ElementsAre("rank_1/net_1-1_9.ckpt"));
  expect_refused(ErrorKind::kMissing, {"'net_2'", "available: net", "net_1", "--src-prefix"},
                 with("net_2"));
  expect_error(ErrorKind::kBadInput, {"--src-prefix net_1"}, [&] { steps(); });
  EXPECT_THAT(steps(with("net_1")), ElementsAre("1_9"));
}

TEST_F(SeriesTest, AreTheUsersChoiceWhicheverIsNewer) {
  for (const std::string rank : {"rank_0/", "rank_1/"}) {
    add(rank + "net-9_1.ckpt");
    add(rank + "net_1-1_1.ckpt");
    add(rank + "net_1-2_1.ckpt");
  }
  std::filesystem::last_write_time(
      dir_.path() / "rank_0/net-9_1.ckpt",
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(24));
  const auto all = find_series(dir_.path(), {});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "net_1") << "the newer one comes first, whatever its step";
  EXPECT_THAT(all[0].steps, ElementsAre("1_1", "2_1"));
  EXPECT_EQ(all[1].name, "net");
  expect_refused(ErrorKind::kBadInput,
                 {"--src-prefix net_1 (step 2_1", "--src-prefix net (step 9_1"});
  EXPECT_THAT(files(with("net_1")), ElementsAre("rank_0/net_1-2_1.ckpt", "rank_1/net_1-2_1.ckpt"));
  EXPECT_EQ(found(with("net_1")).series, "net_1");
  EXPECT_THAT(found(with("net_1")).warnings, IsEmpty());
  expect_refused(ErrorKind::kMissing, {"'9_1'", "available: 1_1, 2_1"}, with("net_1", "9_1"));
}

TEST_F(SeriesTest, AreNamedWithoutTheRank) {
  for (const std::string rank : {"0", "1"}) {
    add("rank_" + rank + "/llama_rank_" + rank + "-1_1.ckpt");
    add("rank_" + rank + "/llama_rank_" + rank + "_1-1_1.ckpt");
  }
  expect_refused(ErrorKind::kBadInput,
                 {"--src-prefix llama (step", "--src-prefix 'llama_rank_{rank}_1' (step"});
  for (const std::string name : {"llama", "llama_rank_{rank}", "llama_rank_0", "llama_rank_1",
                                 "rank_{rank}/llama_rank_{rank}"}) {
    EXPECT_THAT(files(with(name)),
                ElementsAre("rank_0/llama_rank_0-1_1.ckpt", "rank_1/llama_rank_1-1_1.ckpt"))
        << name;
  }
  EXPECT_THAT(files(with("llama_rank_{rank}_1")),
              ElementsAre("rank_0/llama_rank_0_1-1_1.ckpt", "rank_1/llama_rank_1_1-1_1.ckpt"));
}

TEST_F(SeriesTest, AreJoinedByAStarAlone) {
  add("rank_8/net_dev0-1_1.ckpt");
  add("rank_9/net_dev1-1_1.ckpt");
  expect_refused(ErrorKind::kBadInput, {"2 runs or models"});
  CheckpointOptions options = with("");
  options.pattern = "rank_{rank}/net_dev*-{step}.ckpt";
  expect_refused(ErrorKind::kBadInput, {"2 runs or models"}, options);
  options.prefix = "net_dev*";
  EXPECT_THAT(files(options), ElementsAre("rank_8/net_dev0-1_1.ckpt", "rank_9/net_dev1-1_1.ckpt"));
  add("rank_9/net_dev2-1_1.ckpt");
  expect_refused(ErrorKind::kBadInput, {"2 files for step 1_1", "net_dev1", "net_dev2"}, options);
}

TEST_F(SeriesTest, OfBreakpointsAreNamedAndNotTaken) {
  add("rank_0/net-3_9.ckpt");
  add("rank_1/net-3_9.ckpt");
  add("rank_1/net-4_2_breakpoint.ckpt");
  EXPECT_THAT(files(), ElementsAre("rank_0/net-3_9.ckpt", "rank_1/net-3_9.ckpt"));
  EXPECT_THAT(found().warnings,
              ElementsAre(AllOf(HasSubstr("net-4_2_breakpoint.ckpt"), HasSubstr("step 4_2"),
                                HasSubstr("rank 1"), HasSubstr("--src-prefix net_breakpoint"))));
  EXPECT_THAT(steps(), ElementsAre("3_9"));
  EXPECT_THAT(files(with("net_breakpoint")), ElementsAre("rank_1/net-4_2_breakpoint.ckpt"));
  EXPECT_THAT(steps(with("net_breakpoint")), ElementsAre("4_2"));
  EXPECT_THAT(found(with("net")).warnings, IsEmpty());
  std::filesystem::remove(dir_.path() / "rank_0/net-3_9.ckpt");
  std::filesystem::remove(dir_.path() / "rank_1/net-3_9.ckpt");
  EXPECT_THAT(files(), ElementsAre("rank_1/net-4_2_breakpoint.ckpt"));
}

TEST_F(SeriesTest, LeaveOutUnfinishedFilesOfAnotherRun) {
  add("rank_0/net-1_1.ckpt");
  add("rank_0/net_1-1_1.tmp");
  EXPECT_THAT(files(), ElementsAre("rank_0/net-1_1.ckpt"));
  EXPECT_THAT(found().warnings, ElementsAre(AllOf(HasSubstr("being written"), HasSubstr("net_1"))));
  EXPECT_THAT(steps(), ElementsAre("1_1"));
  add("rank_0/net-1_1.ckpt.tmp");
  add("rank_0/net-1_2.tmp");
  EXPECT_THAT(steps(), ElementsAre("1_1 incomplete"));
}

TEST_F(SeriesTest, CannotBeChosenWhereThereAreNone) {
  add("net.ckpt");
  expect_error(ErrorKind::kUsage, {"--src-prefix net", "one file"},
               [&] { discover(dir_.path() / "net.ckpt", with("net")); });
  EXPECT_THAT(find_series(dir_.path() / "net.ckpt", {}), IsEmpty());
}

/// Any listing of runs whose names follow MindSpore's rule: the files of a set are of one run.
TEST_F(SeriesTest, OfRandomRunsAreNeverMixed) {
  std::mt19937 random(20260101);
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  for (int round = 0; round < 150; ++round) {
    const test::TempDir dir;
    const int ranks = 1 + below(5);
    const int runs = 1 + below(3);
    const int models = 1 + below(2);
    const bool named_ranks = below(3) == 0;
    std::map<std::string, std::set<std::pair<std::string, int>>> truth;  // steps and ranks by run
    std::map<std::string, std::string> run_of_file;
    for (int rank = 0; rank < ranks; ++rank) {
      for (int model = 0; model < models; ++model) {
        for (int run = 0; run < runs; ++run) {
          if (below(3) == 0) continue;
          const std::string number = std::to_string(rank);
          const std::string suffix = run == 0 ? "" : "_" + std::to_string(run);
          const std::string head = model == 0 ? "net" : "bert";
          const std::string prefix = head + (named_ranks ? "_rank_" + number : "") + suffix;
          for (int step = 0; step < 1 + below(2); ++step) {
            const std::string name = "1_" + std::to_string(step);
            const std::string file = "rank_" + number + "/" + prefix + "-" + name + ".ckpt";
            dir.write(file, "");
            truth[head + suffix].insert({name, rank});
            run_of_file[file] = head + suffix;
          }
        }
      }
    }
    if (truth.empty()) continue;
    const auto all = find_series(dir.path(), {});
    ASSERT_EQ(all.size(), truth.size()) << "round " << round;
    for (const SeriesInfo& series : all) {
      for (const std::string& step : series.steps) {
        const Discovery taken = discover(dir.path(), with(series.name, step));
        std::set<std::string> taken_runs;
        std::set<std::pair<std::string, int>> taken_files;
        for (const FoundFile& file : taken.files) {
          const std::string path = file.path.lexically_relative(dir.path()).string();
          taken_runs.insert(run_of_file.at(path));
          taken_files.insert({file.step, static_cast<int>(file.rank.number())});
        }
        ASSERT_EQ(taken_runs.size(), 1U) << "round " << round << ": " << series.name;
        std::set<std::pair<std::string, int>> expected;
        for (const auto& file : truth.at(*taken_runs.begin())) {
          if (file.first == step) expected.insert(file);
        }
        ASSERT_EQ(taken_files, expected) << "round " << round << ": " << series.name;
      }
    }
    if (truth.size() == 1) continue;
    EXPECT_THROW(discover(dir.path(), {}), Error) << "round " << round;
  }
}

}  // namespace
}  // namespace reshardfs
