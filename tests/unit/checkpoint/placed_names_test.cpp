// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/placed_names.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Places = std::vector<std::pair<std::string, std::size_t>>;

RankFile file_of(const std::vector<std::string>& names, std::vector<RefusedTensor> refused = {}) {
  std::vector<TensorEntry> entries;
  for (const std::string& name : names) entries.emplace_back().name = name;
  RankFile file;
  file.index = std::make_shared<const FileIndex>(std::move(entries), IndexHints{}, BoxOffsets{},
                                                 std::move(refused));
  return file;
}

std::vector<std::string> names_of(const RankFile& file) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : file.index->entries()) names.push_back(entry.name);
  return names;
}

TEST(PlacedNames, AreInPlaceWhereFilesHaveThemInOrder) {
  const std::vector<RankFile> files{file_of({"a", "d"}), file_of({"c", "b"})};
  EXPECT_TRUE(are_all_in_place({{"a", 0}, {"c", 1}, {"b", 1}, {"d", 0}}, files));
  EXPECT_FALSE(are_all_in_place({{"a", 0}, {"b", 1}, {"c", 1}, {"d", 0}}, files));  // another order
  EXPECT_FALSE(are_all_in_place({{"a", 0}, {"c", 1}, {"b", 1}}, files));            // none for d
  EXPECT_FALSE(are_all_in_place({{"a", 0}, {"c", 1}, {"b", 1}, {"d", 1}}, files));
  EXPECT_FALSE(are_all_in_place({{"a", 0}, {"c", 1}, {"b", 1}, {"d", 2}}, files));
  EXPECT_FALSE(are_all_in_place({{"a", 0}, {"c", 1}, {"b", 1}, {"d", 0}, {"e", 0}}, files));
  EXPECT_FALSE(are_all_in_place({}, files));
}

TEST(PlacedNames, AreNotAllInPlaceWhereTensorsAreRefused) {
  EXPECT_FALSE(are_all_in_place({{"a", 0}}, {file_of({"a"}, {{"b", "unknown", 4}})}));
  EXPECT_FALSE(are_all_in_place({{"a", 0}}, {RankFile{}}));
}

TEST(PlacedNames, AreTakenFromTheFileThatTheIndexNames) {
  std::vector<RankFile> files{file_of({"a", "b"}), file_of({"b", "c"})};
  EXPECT_THAT(take_places({{"a", 0}, {"b", 1}, {"c", 1}}, files), ElementsAre("b"));
  EXPECT_THAT(names_of(files[0]), ElementsAre("a"));
  EXPECT_THAT(names_of(files[1]), ElementsAre("b", "c"));
  EXPECT_THAT(take_places({{"a", 0}, {"b", 1}, {"c", 1}}, files), IsEmpty());
}

}  // namespace
}  // namespace reshardfs
