// SPDX-License-Identifier: Apache-2.0
#include "cli/words/share_argument.h"

#include <array>
#include <map>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

using Environment = std::map<std::string, std::string>;

ChosenShare choose(const std::string& text, const Environment& environment = {}) {
  return choose_share(text, [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

Environment operator+(Environment one, const Environment& other) {
  for (const auto& [name, value] : other) one[name] = value;
  return one;
}

void expect_share(const Environment& environment, const std::string& share,
                  const std::string& from) {
  const ChosenShare chosen = choose("auto", environment);
  EXPECT_EQ(to_string(chosen.share), share);
  EXPECT_EQ(chosen.from, from);
}

void expect_refused(std::initializer_list<std::string> words, const Environment& environment) {
  test::expect_error(ErrorKind::kUsage, words, [&] { choose("auto", environment); });
}

const Environment kSlurmTask{{"SLURM_JOB_ID", "7"},
                             {"SLURM_STEP_ID", "0"},
                             {"SLURM_PROCID", "3"},
                             {"SLURM_NTASKS", "16"},
                             {"SLURM_STEP_NUM_TASKS", "16"}};
const Environment kBatchScript{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
const Environment kArrayElement = kBatchScript + Environment{{"SLURM_ARRAY_TASK_ID", "2"},
                                                             {"SLURM_ARRAY_TASK_COUNT", "4"},
                                                             {"SLURM_ARRAY_TASK_MIN", "0"},
                                                             {"SLURM_ARRAY_TASK_MAX", "3"}};
const Environment kOpenMpi{
    {"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"PMIX_RANK", "5"}};

TEST(ChooseShare, ReadsIndexAndCount) {
  EXPECT_EQ(choose("3/16").share, (Share{3, 16}));
  EXPECT_EQ(choose("0/1").share, (Share{0, 1}));
  // The command line goes before any variable.
  EXPECT_EQ(choose("3/16", kSlurmTask).from, "");
}

TEST(ChooseShare, RefusesWhatIsNoShare) {
  for (const char* text :
       {"", "3", "/", "3/", "/4", "3/4/5", "-1/4", "a/b", "3of4", " 3/4", "Auto"}) {
    test::expect_error(ErrorKind::kUsage, {"--share", "I/N", "auto"}, [&] { choose(text); });
  }
  test::expect_error(ErrorKind::kUsage, {"1 to 65536 shares, not 0"}, [] { choose("0/0"); });
  test::expect_error(ErrorKind::kUsage, {"1 to 65536"}, [] { choose("0/65537"); });
}

TEST(ChooseShare, SaysThatSharesAreCountedFrom0) {
  test::expect_error(ErrorKind::kUsage, {"no share 16/16", "from 0", "15/16"},
                     [] { choose("16/16"); });
}

TEST(ChooseShare, KnowsTheTasksOfSlurm) {
  expect_share(kSlurmTask, "3/16", "SLURM_PROCID");
  // Of srun with fewer tasks than the job.
  expect_share(kSlurmTask + Environment{{"SLURM_NTASKS", "64"}}, "3/16", "SLURM_PROCID");
  Environment no_step_size = kSlurmTask;
  no_step_size.erase("SLURM_STEP_NUM_TASKS");
  expect_share(no_step_size, "3/16", "SLURM_PROCID");
}

TEST(ChooseShare, RefusesABatchScriptAndNamesSrun) {
  expect_refused({"batch script", "srun"}, kBatchScript);
  expect_refused({"srun"}, {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}});
  // What stands for no step: the batch script, an interactive one.
  for (const char* step : {"4294967291", "4294967290", "batch"}) {
    expect_refused({"srun"}, kBatchScript + Environment{{"SLURM_STEP_ID", step}});
  }
}

TEST(ChooseShare, KnowsTheElementsOfAJobArray) {
  expect_share(kArrayElement, "2/4", "SLURM_ARRAY_TASK_ID");
  expect_share(
      kArrayElement + Environment{{"SLURM_ARRAY_TASK_MIN", "1"}, {"SLURM_ARRAY_TASK_MAX", "4"}},
      "1/4", "SLURM_ARRAY_TASK_ID");
  // With one task that srun has started.
  const Environment one_task{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}};
  expect_share(kArrayElement + one_task, "2/4", "SLURM_ARRAY_TASK_ID");
}

TEST(ChooseShare, RefusesAnArrayThatIsAPartOfAnother) {
  for (const auto& [id, first, last, count] :
       {std::array{"3", "3", "3", "1"}, std::array{"3", "3", "9", "3"},
        std::array{"2", "0", "6", "4"}, std::array{"3", "2", "3", "2"}}) {
    expect_refused({"array", "scontrol requeue", "--share I/N"},
                   kArrayElement + Environment{{"SLURM_ARRAY_TASK_ID", id},
                                               {"SLURM_ARRAY_TASK_MIN", first},
                                               {"SLURM_ARRAY_TASK_MAX", last},
                                               {"SLURM_ARRAY_TASK_COUNT", count}});
  }
}

TEST(ChooseShare, RefusesSeveralTasksOfAnArrayElement) {
  expect_refused({"SLURM_PROCID", "job array", "--share $SLURM_PROCID/16"},
                 kArrayElement + kSlurmTask);
  expect_refused({"OMPI_COMM_WORLD_RANK", "job array"}, kArrayElement + kOpenMpi);
  expect_share(kArrayElement + kSlurmTask + Environment{{"SLURM_ARRAY_TASK_COUNT", "1"}}, "3/16",
               "SLURM_PROCID");
}

TEST(ChooseShare, KnowsTheRanksOfMpi) {
  expect_share(kOpenMpi, "5/8", "OMPI_COMM_WORLD_RANK");
  expect_share({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "0/2", "PMI_RANK");
  // Their starters' daemons are tasks of Slurm.
  expect_share(kSlurmTask + kOpenMpi, "5/8", "OMPI_COMM_WORLD_RANK");
  expect_share(kSlurmTask + Environment{{"PMI_RANK", "9"}, {"PMI_SIZE", "10"}}, "9/10", "PMI_RANK");
}

TEST(ChooseShare, NeedsMoreThanTheRankOfPmix) {
  expect_refused({"PMIX_RANK is 2", "number of tasks", "--share $PMIX_RANK/N"},
                 {{"PMIX_RANK", "2"}});
  expect_share(kSlurmTask + Environment{{"PMIX_RANK", "3"}}, "3/16", "SLURM_PROCID");
  expect_refused({"PMIX_RANK is 2", "SLURM_PROCID is 3"},
                 kSlurmTask + Environment{{"PMIX_RANK", "2"}});
}

TEST(ChooseShare, RefusesVariablesThatCannotBe) {
  expect_refused({"SLURM_PROCID is 'x'"}, kSlurmTask + Environment{{"SLURM_PROCID", "x"}});
  expect_refused({"SLURM_PROCID is 16", "SLURM_STEP_NUM_TASKS is 16"},
                 kSlurmTask + Environment{{"SLURM_PROCID", "16"}});
  expect_refused({"65536"}, kOpenMpi + Environment{{"OMPI_COMM_WORLD_SIZE", "100000"}});
}

TEST(ChooseShare, RefusesWhereNothingTells) {
  expect_refused({"Slurm", "Open MPI", "MPICH", "PMIx", "--share I/N"}, {});
}

}  // namespace
}  // namespace reshardfs
