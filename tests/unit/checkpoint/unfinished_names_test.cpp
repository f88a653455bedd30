// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/unfinished_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string finished(std::string_view name) {
  const auto unfinished = unfinished_name(name);
  return unfinished ? unfinished->finished : "-";
}

TEST(UnfinishedName, TellsTheFileThatItWillBe) {
  EXPECT_EQ(finished("net-9_50.tmp"), "net-9_50");
  for (const char* suffix : {".tmp", ".part", ".partial", ".incomplete", ".crdownload", ".aria2"}) {
    EXPECT_EQ(finished(std::string("net.ckpt") + suffix), "net.ckpt") << suffix;
  }
  EXPECT_EQ(finished(".net-9_50.ckpt.a1B2c3"), "net-9_50.ckpt");
}

TEST(UnfinishedName, IsNotThatOfAnOrdinaryFile) {
  for (const char* name :
       {"net.ckpt", ".net.ckpt", ".net.config", "net.ckpt.a1B2c3", ".gitattributes",
        ".net.safetensors", "", ".", ".aaaaaa", ".a.bbbbb", "meta.json"}) {
    EXPECT_EQ(finished(name), "-") << name;
  }
}

TEST(UnfinishedFiles, AreWarnedOfWhereTheFinishedOneIsNotThere) {
  const std::vector<DirectoryEntry> entries{
      {"a.ckpt"}, {"a.ckpt.part"}, {"b.ckpt.part"}, {"c.txt.part"}};
  EXPECT_THAT(unfinished_files("d", entries, ".ckpt"), ElementsAre(HasSubstr("b.ckpt.part")));
  EXPECT_THAT(unfinished_files("d", {{"b.ckpt.aria2"}}, ".ckpt"), ElementsAre(HasSubstr("b.ckpt")));
  EXPECT_THAT(unfinished_files("d", {}, ".ckpt"), IsEmpty());
}

TEST(UnfinishedFiles, AreRefusedWhereTheyAreWrittenInPlace) {
  test::expect_error(ErrorKind::kBadInput, {"d/a.ckpt", "a.ckpt.aria2"}, [] {
    unfinished_files("d", {{"a.ckpt"}, {"a.ckpt.aria2"}}, ".ckpt");
  });
}

}  // namespace
}  // namespace reshardfs
