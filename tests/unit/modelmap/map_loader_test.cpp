// SPDX-License-Identifier: Apache-2.0
#include "modelmap/map_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map_samples.h"

namespace reshardfs::modelmap {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using testing::MapFiles;
using ::testing::Pair;
using testing::refusal_of;
using ::testing::SizeIs;

class MapLoaderTest : public ::testing::Test {
 protected:
  MapFiles files_{};
  std::map<std::string, int> reads_{};  ///< by file
  MapLoader loader_{[this](const std::filesystem::path& file) {
    const auto found = files_.find(file.string());
    if (found == files_.end()) {
      throw Error(ErrorKind::kMissing, "cannot open").in_file(file.string());
    }
    ++reads_[file.string()];
    return found->second;
  }};
};

std::string rule(const std::string& to, const std::string& from) {
  return "[[map]]\nto = '" + to + "'\nfrom = '" + from + "'\n";
}

TEST_F(MapLoaderTest, ReadsWhatSeveralMapsExtendOnce) {
  files_ = {{"parent.toml", rule("a", "b") + "[vars]\nn = 3\n"},
            {"one.toml", "extends = 'parent.toml'\n" + rule("c", "d")},
            {"two.toml", "extends = 'one.toml'\n" + rule("a", "e")}};
  const ModelMap two = loader_.load("two.toml");
  const ModelMap one = loader_.load("one.toml");
  const ModelMap parent = loader_.load("parent.toml");
  EXPECT_THAT(reads_, SizeIs(3));
  EXPECT_THAT(reads_, Each(Pair(::testing::_, 1)));
  ASSERT_THAT(two.rules, SizeIs(2));
  EXPECT_EQ(two.rules[1].from[0].text(), "e");
  ASSERT_THAT(one.rules, SizeIs(2));
  EXPECT_EQ(one.rules[0].from[0].text(), "b");
  EXPECT_EQ(one.file, "one.toml");
  EXPECT_EQ(one.name(), "one");
  ASSERT_THAT(parent.rules, SizeIs(1));
  EXPECT_TRUE(parent.variables.contains("n"));
}

TEST_F(MapLoaderTest, LoadsOtherMapsAfterOneThatItRefuses) {
  files_ = {{"circle.toml", "extends = 'back.toml'"},
            {"back.toml", "extends = 'circle.toml'"},
            {"good.toml", rule("a", "b")}};
  EXPECT_THAT(refusal_of([&] { loader_.load("circle.toml"); }), HasSubstr("circle"));
  EXPECT_THAT(loader_.load("good.toml").rules, SizeIs(1));
  files_["back.toml"] = rule("c", "d");
  EXPECT_THAT(loader_.load("circle.toml").rules, SizeIs(1));
}

TEST_F(MapLoaderTest, NamesTheMapWhoseParentIsMissing) {
  files_ = {{"map.toml", "\nextends = 'parent.toml'"},
            {"parent.toml", "extends = 'none.toml'"},
            {"family.toml", "extends = 'gone.toml'\n[names]\nfamily-7b = 'm == 3'"}};
  EXPECT_EQ(refusal_of([&] { loader_.load("map.toml"); }),
            "parent.toml: line 1: 'extends' names 'none.toml', which does not exist");
  EXPECT_EQ(refusal_of([&] { loader_.load("family-7b.toml"); }),
            "family.toml: line 1: 'extends' names 'gone.toml', which does not exist");
}

TEST_F(MapLoaderTest, CountsTheFilesOfEachMap) {
  const auto add = [&](const std::string& name, std::size_t parents) {
    std::string list;
    for (std::size_t i = 0; i < parents; ++i) {
      const std::string parent = name + std::to_string(i) + ".toml";
      files_[parent] = "";
      list += "'" + parent + "',";
    }
    files_[name + ".toml"] = "extends = [" + list + "]";
  };
  add("a", kMaxMapFiles - 1);
  add("b", kMaxMapFiles - 1);
  add("c", kMaxMapFiles);
  EXPECT_EQ(loader_.load("a.toml").file, "a.toml");
  EXPECT_EQ(loader_.load("b.toml").file, "b.toml");
  EXPECT_THAT(refusal_of([&] { loader_.load("c.toml"); }), HasSubstr("more than 64 files"));
}

TEST_F(MapLoaderTest, ShowsWhichMapsDependOnALayerPattern) {
  files_ = {{"plain.toml", rule("a.{i}", "b.{i}")},
            {"pattern.toml", rule("a.{nth(i, \"M\")}", "b.{i}")}};
  EXPECT_FALSE(loader_.load("plain.toml").uses_layer_pattern);
  EXPECT_TRUE(loader_.load("pattern.toml").uses_layer_pattern);
}

}  // namespace
}  // namespace reshardfs::modelmap
