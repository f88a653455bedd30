// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategy_samples.h"
#include "support/ranks.h"

namespace reshardfs::testing {
namespace {

using ::testing::HasSubstr;

std::string ranks_message(const std::vector<std::int64_t>& ranks) {
  std::string message;
  for (const std::int64_t rank : ranks) message += number_field(1, rank);
  return message;
}

std::vector<Rank> load(const std::string& bytes) {
  const TemporaryDirectory directory;
  return load_group_info(directory.write("group_info.pb", bytes));
}

std::string group_refusal(const std::string& bytes) {
  try {
    load(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadInput);
    EXPECT_THAT(error.file(), HasSubstr("group_info.pb"));
    return error.message();
  }
  return "accepted";
}

TEST(GroupInfo, GivesTheRanksInFileOrder) {
  const std::string group =
      bytes_field(1, bytes_field(1, "mirror") + bytes_field(2, ranks_message({1, 2})));
  EXPECT_EQ(load(group + bytes_field(2, ranks_message({39, 47, 7}))), test::ranks({39, 47, 7}));
}

TEST(GroupInfo, RefusesFilesWithoutRanks) {
  EXPECT_THAT(group_refusal(""), HasSubstr("names no ranks"));
  EXPECT_THAT(group_refusal(bytes_field(2, "")), HasSubstr("names no ranks"));
}

TEST(GroupInfo, RefusesOtherFiles) {
  EXPECT_THAT(group_refusal("some text"), HasSubstr("is not a MindSpore group-info file"));
  EXPECT_THAT(group_refusal(bytes_field(1, "")), HasSubstr("is not a MindSpore group-info file"));
  EXPECT_THAT(group_refusal(bytes_field(2, ranks_message({-1}))), HasSubstr("-1"));
}

TEST(GroupInfo, MissingFilesAreMissing) {
  const TemporaryDirectory directory;
  try {
    load_group_info(directory.path() / "nowhere");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMissing);
  }
}

}  // namespace
}  // namespace reshardfs::testing
