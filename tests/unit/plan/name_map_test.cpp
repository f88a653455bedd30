// SPDX-License-Identifier: Apache-2.0
#include "plan/target/name_map.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/temp_dir.h"

namespace reshardfs {
namespace {

using test::expect_error;

TEST(NameMap, RenamesWhatItHasAndNothingElse) {
  const test::TempDir dir;
  const NameMap map = NameMap::load(dir.write("map.json", R"({"old": "new", "a": "b"})"));
  EXPECT_EQ(map.target("old"), "new");
  EXPECT_EQ(map.target("a"), "b");
  EXPECT_EQ(map.target("new"), "new");
  EXPECT_EQ(NameMap().target("old"), "old");
}

TEST(NameMap, RefusesWhatIsNoObjectOfTexts) {
  const test::TempDir dir;
  expect_error(ErrorKind::kBadInput, {"map.json", "is not valid JSON"},
               [&] { NameMap::load(dir.write("map.json", R"({"old": )")); });
  expect_error(ErrorKind::kBadInput, {"map.json", "JSON object", "old.name"},
               [&] { NameMap::load(dir.write("map.json", R"(["old", "new"])")); });
  expect_error(ErrorKind::kBadInput, {"map.json", "'old'", "expected a text"},
               [&] { NameMap::load(dir.write("map.json", R"({"old": 1})")); });
}

TEST(NameMap, LimitsTheLengthOfNames) {
  const test::TempDir dir;
  const auto map_to = [&](std::size_t bytes) {
    return NameMap::load(dir.write("map.json", R"({"old": ")" + std::string(bytes, 'n') + R"("})"));
  };
  EXPECT_EQ(map_to(1).target("old"), "n");
  EXPECT_EQ(map_to(4096).target("old").size(), 4096U);
  expect_error(ErrorKind::kBadInput, {"'old'"}, [&] { map_to(0); });
  expect_error(ErrorKind::kBadInput, {"'old'"}, [&] { map_to(4097); });
}

TEST(NameMap, SaysThatItsFileIsMissing) {
  expect_error(ErrorKind::kMissing, {"nowhere.json"},
               [] { NameMap::load("/nonexistent/nowhere.json"); });
}

TEST(NameMap, RefusesAFileFarLargerThanAnyModelsNames) {
  const test::TempDir dir;
  const auto path = dir.write("map.json", "");
  std::filesystem::resize_file(path, (256U << 20) + 1);
  expect_error(ErrorKind::kBadInput, {"map.json", "268435457 bytes"}, [&] { NameMap::load(path); });
}

}  // namespace
}  // namespace reshardfs
