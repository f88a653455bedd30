// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_set.h"

#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"
#include "support/ranks.h"
#include "support/temp_dir.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::small_record;
using test::TempDir;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string safetensors_file(const std::string& name) {
  const std::string header =
      R"({")" + name + R"(":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + "xy";
}
const std::string kTensorA = safetensors_file("a");
const std::string kTensorB = safetensors_file("b");

class CheckpointSetTest : public testing::Test {
 protected:
  void add(const std::string& file) const { dir_.write(file, small_record("w")); }
  CheckpointSet open(const CheckpointOptions& options = {}) const {
    return CheckpointSet::open(dir_.path(), options);
  }
  void expect_refused(ErrorKind kind, std::initializer_list<std::string> words,
                      const CheckpointOptions& options = {}) const {
    expect_error(kind, words, [&] { open(options); });
  }
  static std::vector<std::int64_t> ranks(const CheckpointSet& set) {
    std::vector<std::int64_t> out;
    for (const RankFile& file : set.files()) out.push_back(file.rank.number());
    return out;
  }
  std::string relative(const RankFile& file) const {
    return file.path.lexically_relative(dir_.path()).string();
  }

  TempDir dir_;
};

TEST_F(CheckpointSetTest, OpensADirectoryForEachRank) {
  for (const char* rank : {"0", "1", "2", "10"}) add(std::string("rank_") + rank + "/net-1_5.ckpt");
  const CheckpointSet set = open();
  EXPECT_THAT(ranks(set), ElementsAre(0, 1, 2, 10));
  EXPECT_EQ(set.step(), "1_5");
  EXPECT_THAT(set.steps(), ElementsAre("1_5"));
  EXPECT_THAT(set.notes(), IsEmpty());
  EXPECT_NE(set.find(Rank(10))->index->find("w"), nullptr);
  EXPECT_EQ(relative(*set.find(Rank(10))), "rank_10/net-1_5.ckpt");
  EXPECT_EQ(set.find(Rank(3)), nullptr);
  EXPECT_EQ(set.find(Rank(11)), nullptr);
  EXPECT_GE(set.mtime_ns(), set.files()[0].source->mtime_ns());
}

TEST_F(CheckpointSetTest, OpensOneFile) {
  const auto path = dir_.write("net-3_9.ckpt", small_record("w"));
  const CheckpointSet set = CheckpointSet::open(path, {});
  EXPECT_THAT(ranks(set), ElementsAre(0));
  EXPECT_EQ(set.step(), "3_9");
  CheckpointOptions other;
  other.step = "3_8";
  expect_error(ErrorKind::kMissing, {"net-3_9.ckpt", "'3_8'", "3_9"},
               [&] { CheckpointSet::open(path, other); });
  expect_error(ErrorKind::kBadInput, {"a.safetensors"},
               [&] { CheckpointSet::open(dir_.write("a.safetensors", "x"), {}); });
  expect_error(ErrorKind::kMissing, {"absent", "no such file"},
               [&] { CheckpointSet::open(dir_.path() / "absent", {}); });
}

TEST_F(CheckpointSetTest, TriesTheKnownPatternsInOrder) {
  add("a_rank_7-1_1.ckpt");
  EXPECT_THAT(ranks(open()), ElementsAre(7));
  EXPECT_THAT(open().notes(), ElementsAre("using the files that match *_rank_{rank}*.ckpt"));
  add("ckpt_3/auto_parallel-1_2.ckpt");
  EXPECT_THAT(ranks(open()), ElementsAre(3));
  add("node2/CKP_1-4_32.ckpt");
  EXPECT_THAT(ranks(open()), ElementsAre(2));
  EXPECT_EQ(open().step(), "4_32");
  add("rank_1/net.ckpt");
  EXPECT_THAT(ranks(open()), ElementsAre(1));
  EXPECT_THAT(open().notes(), IsEmpty());
}

TEST_F(CheckpointSetTest, TakesRanksAsNumbersAndSkipsTheRest) {
  add("rank_01/net.ckpt");
  add("rank_x/net.ckpt");
  add("rank_/net.ckpt");
  add("rank_1x/net.ckpt");
  add("rank_-1/net.ckpt");
  add("rank_99999999999999999999/net.ckpt");
  add(".rank_5/net.ckpt");
  EXPECT_THAT(ranks(open()), ElementsAre(1));
  add("rank_1/net.ckpt");
  expect_refused(ErrorKind::kBadInput, {dir_.path().string(), "rank_01", "rank_1", "rank 1"});
}

TEST_F(CheckpointSetTest, IgnoresOtherFiles) {
  add("rank_0/net.ckpt");
  dir_.write("rank_0/net.tmp", "x");
  dir_.write("rank_0/net_graph.meta", "x");
  dir_.write("rank_0/.hidden.ckpt", "x");
  dir_.make_directory("rank_0/directory.ckpt");
  dir_.write("rank_7", "a file");
  EXPECT_EQ(open().files().size(), 1U);
  CheckpointOptions everything;
  everything.pattern = "rank_{rank}/net.*";
  EXPECT_EQ(open(everything).files().size(), 1U);
}

TEST_F(CheckpointSetTest, NotesARankWithoutFile) {
  add("rank_0/net.ckpt");
  dir_.make_directory("rank_1");
  dir_.make_directory("rank_2");
  const CheckpointSet set = open();
  EXPECT_THAT(ranks(set), ElementsAre(0));
  ASSERT_EQ(set.notes().size(), 1U);
  EXPECT_THAT(set.notes()[0], testing::StartsWith("ranks 1,2 missing"));
}

TEST_F(CheckpointSetTest, SaysWhatItLookedFor) {
  expect_refused(ErrorKind::kMissing, {dir_.path().string(), "is an empty directory"});
  dir_.write("notes.txt", "mine");
  expect_refused(ErrorKind::kMissing, {dir_.path().string(), "there is 'notes.txt'",
                                       "--src-pattern, for example 'rank_{rank}/*.ckpt'"});
  CheckpointOptions options;
  options.pattern = "x{rank}.ckpt";
  expect_refused(ErrorKind::kMissing, {"x{rank}.ckpt", "--src-pattern"}, options);
}

TEST_F(CheckpointSetTest, TakesNoOlderStepForOneThatIsNotComplete) {
  dir_.write("step-9/.metadata", "\x80\x02 a table");
  dir_.write("step-10/.metadata", "\x80\x02 a table");
  dir_.write("step-11/__0_0.distcp", "a save that was interrupted");
  dir_.write("step-12.log", "no directory");
  expect_refused(ErrorKind::kBadInput,
                 {"step 11 has no checkpoint that can be read", "available: 9, 10", "--step"});
}

TEST_F(CheckpointSetTest, TakesFilesOfOneFormatOnly) {
  dir_.write("rank_0/net.safetensors", kTensorA);
  EXPECT_EQ(open().format().name, "safetensors");
  add("rank_1/net.ckpt");
  expect_refused(ErrorKind::kBadInput, {"two formats", "rank_{rank}/*.ckpt",
                                        "--src-pattern 'rank_{rank}/*.safetensors'"});
  CheckpointOptions options;
  options.pattern = "rank_{rank}/*.ckpt";
  EXPECT_THAT(ranks(open(options)), ElementsAre(1));
}

TEST_F(CheckpointSetTest, TakesTheOnlySafetensorsFile) {
  dir_.write("model.safetensors", kTensorA);
  dir_.write("config.json", "{}");
  EXPECT_THAT(ranks(open()), ElementsAre(0));
  dir_.write("other.safetensors", kTensorA);
  expect_refused(ErrorKind::kMissing, {"2 checkpoints here: 'model.safetensors', 'other"});
}

TEST_F(CheckpointSetTest, TakesTheFilesOfANameMap) {
  dir_.write("part0.safetensors", kTensorA);
  dir_.write("hyper_param.safetensors", kTensorB);
  dir_.write("param_name_map.json", R"({"a": "part0.safetensors"})");
  const CheckpointSet set = open();
  EXPECT_THAT(ranks(set), ElementsAre(0, 0));
  EXPECT_NE(set.files()[0].index->find("b"), nullptr);
  EXPECT_NE(set.files()[1].index->find("a"), nullptr);
  dir_.write("param_name_map.json", R"({"weight_map": {"b": "part0.safetensors"}})");
  expect_refused(ErrorKind::kBadInput, {"part0.safetensors", "'b'", "name map"});
}

TEST_F(CheckpointSetTest, TakesTheNewestStepByNumber) {
  for (const char* step : {"9_50", "10_50", "10_9"}) {
    add(std::string("rank_0/llama-") + step + ".ckpt");
    add(std::string("rank_1/llama-") + step + ".ckpt");
  }
  add("rank_0/llama.ckpt");
  const CheckpointSet set = open();
  EXPECT_EQ(set.step(), "10_50");
  EXPECT_THAT(set.steps(), ElementsAre("9_50", "10_9", "10_50"));
  EXPECT_THAT(set.notes(),
              ElementsAre("using step 10_50; also available: files without a step, 9_50, 10_9"));
  EXPECT_EQ(relative(set.files()[1]), "rank_1/llama-10_50.ckpt");
}

TEST_F(CheckpointSetTest, RefusesToMixSteps) {
  for (const char* rank : {"0", "1", "2", "3"}) {
    add(std::string("rank_") + rank + "/llama-9_50.ckpt");
  }
  add("rank_0/llama-10_50.ckpt");
  expect_refused(ErrorKind::kBadInput, {dir_.path().string(), "step 9_50 on ranks 1-3",
                                        "step 10_50 on rank 0", "--step"});
  CheckpointOptions options;
  options.step = "9_50";
  EXPECT_EQ(open(options).files().size(), 4U);
  EXPECT_EQ(open(options).step(), "9_50");
}

TEST_F(CheckpointSetTest, TakesTheStepThatIsNamed) {
  add("rank_0/llama-9_50.ckpt");
  add("rank_0/llama-10_50.ckpt");
  add("rank_1/llama-9_50.ckpt");
  CheckpointOptions options;
  options.step = "10_50";
  const CheckpointSet set = open(options);
  EXPECT_THAT(ranks(set), ElementsAre(0));
  EXPECT_THAT(set.notes(), ElementsAre("rank 1: no file of step 10_50"));
  for (const char* wrong : {"11_1", "", "newest", "9_50x", "9"}) {
    options.step = wrong;
    expect_refused(ErrorKind::kMissing, {wrong, "available: 9_50, 10_50"}, options);
  }
}

TEST_F(CheckpointSetTest, RefusesTwoFilesOfOneStep) {
  add("rank_0/a-1_5.ckpt");
  add("rank_3/a-1_5.ckpt");
  add("rank_3/b-1_5.ckpt");
  expect_refused(ErrorKind::kBadInput, {"2 runs or models", "--src-prefix a", "--src-prefix b"});
  CheckpointOptions both;
  both.prefix = "*";
  expect_refused(
      ErrorKind::kBadInput,
      {"rank 3", "step 1_5", "'rank_3/a-1_5.ckpt'", "'rank_3/b-1_5.ckpt'", "--src-pattern"}, both);
  CheckpointOptions options;
  options.pattern = "rank_{rank}/a-{step}.ckpt";
  EXPECT_THAT(ranks(open(options)), ElementsAre(0, 3));
}

TEST_F(CheckpointSetTest, RefusesTwoFilesWithoutStep) {
  add("rank_0/a.ckpt");
  add("rank_0/b.ckpt");
  CheckpointOptions both;
  both.prefix = "*";
  expect_refused(ErrorKind::kBadInput, {"rank 0", "no step", "--src-pattern"}, both);
  expect_refused(ErrorKind::kBadInput,
                 {"--src-prefix a (no step of", "--src-prefix b (no step of"});
}

TEST_F(CheckpointSetTest, TakesAPatternWithSteps) {
  for (const char* name :
       {"step_100/node-0/m.bin", "step_100/node-1/m.bin", "step_20/node-0/m.bin"}) {
    add(name);
  }
  CheckpointOptions options;
  options.pattern = "step_{step}/node-{rank}/?.bin";
  EXPECT_THAT(ranks(open({options.pattern, "100", false})), ElementsAre(0, 1));
  EXPECT_THAT(ranks(open({options.pattern, "20", false})), ElementsAre(0));
  EXPECT_THAT(ranks(open(options)), ElementsAre(0, 1)) << "rank 1 holds step 100 alone";
  EXPECT_EQ(open(options).step(), "100");
}

TEST_F(CheckpointSetTest, NamesTheFileThatIsBroken) {
  for (const char* rank : {"0", "1", "2"}) add(std::string("rank_") + rank + "/net.ckpt");
  dir_.write("rank_1/net.ckpt", small_record("w").substr(0, 20));
  expect_refused(ErrorKind::kBadInput, {"rank_1/net.ckpt", "'w'", "not complete"});
  dir_.write("rank_1/net.ckpt", "");
  expect_refused(ErrorKind::kBadInput, {"rank_1/net.ckpt", "is empty"});
  std::filesystem::remove(dir_.path() / "rank_1/net.ckpt");
  std::filesystem::create_symlink("nowhere", dir_.path() / "rank_1/net.ckpt");
  expect_refused(ErrorKind::kMissing, {"rank_1/net.ckpt", "no such file"});
}

TEST_F(CheckpointSetTest, ChecksTheTrailersWhenAsked) {
  const std::string record = small_record("w");
  add("rank_0/net.ckpt");
  CheckpointOptions options;
  options.check_crc = true;
  EXPECT_THAT(open(options).warnings(),
              ElementsAre(HasSubstr("no file of the checkpoint has a CRC")));
  EXPECT_THAT(open().warnings(), IsEmpty());
  dir_.write("rank_1/net.ckpt", record + test::trailer(1));
  EXPECT_EQ(open().files().size(), 2U);
  expect_refused(ErrorKind::kBadInput, {"rank_1/net.ckpt", "CRC", "damaged"}, options);
}

TEST_F(CheckpointSetTest, OpensManyRanks) {
  for (int rank = 0; rank < 500; ++rank) add("rank_" + std::to_string(rank) + "/net.ckpt");
  const CheckpointSet set = open();
  ASSERT_EQ(set.files().size(), 500U);
  for (const Rank rank : test::first_ranks(500)) EXPECT_EQ(set.find(rank)->rank, rank);
}

TEST_F(CheckpointSetTest, TakesFilesThatAreOpen) {
  add("rank_0/net.ckpt");
  add("rank_1/net.ckpt");
  std::vector<RankFile> files = open().files();
  const CheckpointSet reversed({files[1], files[0]});
  EXPECT_THAT(ranks(reversed), ElementsAre(0, 1));
  EXPECT_EQ(reversed.find(Rank(1))->path, files[1].path);
  expect_error(ErrorKind::kBadInput, {"at least one"}, [] { CheckpointSet({}); });
  files[1].rank = Rank(0);
  expect_error(ErrorKind::kBadInput, {"rank 0", "rank_0/net.ckpt", "rank_1/net.ckpt"},
               [&] { CheckpointSet{files}; });
}

TEST_F(CheckpointSetTest, SaysThatADirectoryCannotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  add("rank_0/net.ckpt");
  std::filesystem::permissions(dir_.path() / "rank_0", std::filesystem::perms::none);
  expect_refused(ErrorKind::kIo, {"rank_0", "Permission denied"});
  std::filesystem::permissions(dir_.path() / "rank_0", std::filesystem::perms::all);
}

}  // namespace
}  // namespace reshardfs
