// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/completeness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/ranks/rank_files.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<FoundFile> found(const std::vector<std::string>& paths) {
  std::vector<FoundFile> files;
  for (const std::string& path : paths) {
    files.push_back({Rank(static_cast<std::int64_t>(files.size())), {}, path, -1, {}, {}});
  }
  return files;
}

std::string missing_of(const Completeness& statement) {
  return statement.missing.empty() ? "" : statement.missing.front().what();
}

TEST(Completeness, IsWhatNamesCount) {
  const auto whole = state_names(found({"d/m-1-of-2.ckpt", "d/m-2-of-2.ckpt"}), "d");
  EXPECT_THAT(whole.missing, IsEmpty());
  EXPECT_TRUE(whole.counted);
  EXPECT_EQ(completeness_words(whole), "complete, according to counts in 2 names");
  EXPECT_THAT(state_names(found({"d/m-0-of-2.ckpt", "d/m-1-of-2.ckpt"}), "d").missing, IsEmpty());
}

TEST(Completeness, IsNotWhereACountedFileIsMissing) {
  const auto names = [](const std::vector<std::string>& paths) {
    return missing_of(state_names(found(paths), "d"));
  };
  EXPECT_THAT(names({"d/m-00001-of-00002.ckpt"}),
              HasSubstr("d: the name of 'm-00001-of-00002.ckpt' counts 2 files, but "
                        "'m-00002-of-00002.ckpt' is missing"));
  EXPECT_THAT(names({"d/m-2-of-3.ckpt"}),
              HasSubstr("'m-1-of-3.ckpt', 'm-3-of-3.ckpt' are missing"));
  EXPECT_THAT(names({"d/m-0-of-2.ckpt"}), HasSubstr("'m-1-of-2.ckpt' is missing"));
  // However many there should be.
  EXPECT_THAT(names({"d/m-1-of-999999999999999999.ckpt"}),
              HasSubstr("'m-6-of-999999999999999999.ckpt' and 999999999999999993 more are"));
  // Each directory has its own.
  EXPECT_THAT(names({"d/0/m-1-of-2.ckpt", "d/1/m-2-of-2.ckpt"}), HasSubstr("d/0"));
}

TEST(Completeness, SaysWhichFilesLieThereUnread) {
  const test::TempDir dir;
  dir.write("m-2-of-2.ckpt", "x");
  const auto statement = state_names(found({(dir.path() / "m-1-of-2.ckpt").string()}), dir.path());
  EXPECT_THAT(missing_of(statement), HasSubstr("'m-2-of-2.ckpt' is not among those that are read"));
}

TEST(Completeness, IsNotStatedByOtherNames) {
  const auto statement = state_names(found({"d/rank_0/a.ckpt", "d/rank_1/a.ckpt"}), "d");
  EXPECT_FALSE(statement.counted);
  EXPECT_THAT(warnings_of(statement), IsEmpty());
  EXPECT_EQ(completeness_words(statement), "unknown whether these are all files");
  // One file of one in each directory does not count the directories.
  const auto each = state_names(found({"d/0/m-1-of-1.ckpt", "d/1/m-1-of-1.ckpt"}), "d");
  EXPECT_FALSE(each.counted);
  EXPECT_FALSE(each.unstated.empty());
}

TEST(Completeness, OfOneFileIsWhatWasAskedFor) {
  const auto of = [](const std::string& path) { return state_names(found({path}), path); };
  EXPECT_THAT(warnings_of(of("d/m.ckpt")), IsEmpty());
  EXPECT_THAT(warnings_of(of("d/m-1-of-1.safetensors")), IsEmpty());
  EXPECT_THAT(warnings_of(of("d/m-00001-of-00002.safetensors")),
              ElementsAre(HasSubstr("'m-00001-of-00002.safetensors' is file 1 of 2 of a model")));
  EXPECT_THAT(warnings_of(of("d/model-0000003-0000008.safetensors")),
              ElementsAre(HasSubstr("is the file of rank 3 of a save of 8 files")));
  EXPECT_THAT(warnings_of(of("d/net_part1-3_5.ckpt")),
              ElementsAre(HasSubstr("is part 1 of 'net-3_5.ckpt'")));
  EXPECT_THAT(of("d/m-00001-of-00002.safetensors").missing, IsEmpty());
  EXPECT_EQ(completeness_words(of("d/m.ckpt")), "complete, according to one file, as it was named");
}

TEST(Completeness, WarnsOnceOfWhatNothingStates) {
  Completeness statement;
  statement.unstated = "how many shards there are beside these 2";
  statement.open_extents = {{"a", {8, 4}}, {"b", {2}}, {"c", {3}}};
  EXPECT_THAT(warnings_of(statement),
              ElementsAre(HasSubstr("unknown how many shards there are beside these 2: 'a' "
                                    "[8, 4] and 2 more parameters would be smaller")));
  const auto only_c = [](const std::string& name) { return name == "c"; };
  EXPECT_THAT(warnings_of(statement, only_c), ElementsAre(HasSubstr("'c' [3] would be smaller")));
  EXPECT_THAT(warnings_of(statement, [](const std::string&) { return false; }), IsEmpty());
}

}  // namespace
}  // namespace reshardfs
