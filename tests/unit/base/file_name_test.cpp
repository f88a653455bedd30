// SPDX-License-Identifier: Apache-2.0
#include "base/text/file_name.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/text/utf8.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

std::vector<std::string> components_of(const std::string& path) {
  std::vector<std::string> components(1);
  for (const char c : path) {
    if (c == '/') {
      components.emplace_back();
    } else {
      components.back() += c;
    }
  }
  return components;
}

/// Whether it can be a directory's entry (src/vfs/tree_builder.cpp), with an extension and more.
bool is_valid_component(const std::string& text) {
  const auto is_control = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  };
  return !text.empty() && text.size() <= 200 && text != "." && text != ".." && is_utf8(text) &&
         std::none_of(text.begin(), text.end(), is_control);
}

TEST(FileName, LeavesOrdinaryNamesAsTheyAre) {
  for (const std::string name :
       {"w", "model.layers.0.attention.wq.weight", "moments.w", "层.weight é", "a/b/c", "-x", "a+b",
        ".hidden", "a..b", "...", "a b", "w.npy", "a:b*c?\\"}) {
    EXPECT_EQ(to_file_path(name), name);
    EXPECT_EQ(from_file_path(name), name);
  }
}

TEST(FileName, EscapesWhatCannotStandInAPath) {
  const std::map<std::string, std::string> paths{
      {".", "%2E"},
      {"..", "%2E%2E"},
      {"a/../b", "a/%2E%2E/b"},
      {"./a", "%2E/a"},
      {"100%", "100%25"},
      {"%2E", "%252E"},
      {"%+", "%25+"},
      {"/", "%2F"},
      {"//", "%2F%2F"},
      {"/a", "%2Fa"},
      {"a/", "a%2F"},
      {"a//b", "a/%2Fb"},
      {"a///b", "a/%2F/b"},
      {"/../", "%2F..%2F"},
      {"/../a", "%2F../a"},
      {"a\nb", "a%0Ab"},
      {std::string("a\0b", 3), "a%00b"},
      {"\x7f", "%7F"},
      {"\xc2\x9b", "%C2%9B"},
      {"\xc2\xa0", "\xc2\xa0"},
      {"a\xff", "a%FF"},
      {"\xe5\xb1", "%E5%B1"},
  };
  for (const auto& [name, path] : paths) {
    EXPECT_EQ(to_file_path(name), path);
    EXPECT_EQ(from_file_path(path), name);
  }
}

TEST(FileName, GivesNoDirectoryTheNameOfAFile) {
  EXPECT_EQ(to_file_path("a.npy"), "a.npy");
  EXPECT_EQ(to_file_path("a.npy/b"), "a%2Enpy/b");
  EXPECT_EQ(to_file_path(".npy/b"), "%2Enpy/b");
  EXPECT_EQ(from_file_path("a%2Enpy/b"), "a.npy/b");
  EXPECT_EQ(from_file_path("a.npy/b"), std::nullopt);
  const std::string long_name = std::string(300, 'a') + ".npy";
  for (const std::string& part : components_of(to_file_path(long_name + "/b"))) {
    EXPECT_FALSE(part.ends_with(".npy"));
  }
}

TEST(FileName, CutsLongNames) {
  EXPECT_EQ(to_file_path(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(to_file_path(std::string(201, 'a')), std::string(198, 'a') + "%+/aaa");
  EXPECT_EQ(to_file_path(std::string(198, 'a') + "/b"), std::string(198, 'a') + "/b");
  // Neither an escape nor a character is cut.
  EXPECT_EQ(to_file_path(std::string(197, 'a') + "%bcd"), std::string(197, 'a') + "%+/%25bcd");
  EXPECT_EQ(to_file_path(std::string(196, 'a') + "%bcd"), std::string(196, 'a') + "%+/%25bcd");
  EXPECT_EQ(to_file_path(std::string(195, 'a') + "%bcd"), std::string(195, 'a') + "%25%+/bcd");
  EXPECT_EQ(to_file_path(std::string(196, 'a') + "层bc"), std::string(196, 'a') + "%+/层bc");
  EXPECT_EQ(to_file_path(std::string(195, 'a') + "层bcd"), std::string(195, 'a') + "层%+/bcd");
  for (const std::size_t size : {201U, 300U, 398U, 399U, 1000U, 4096U}) {
    for (const std::string unit : {"a", "%", "层", "\x01", "😀", "."}) {
      std::string name;
      while (name.size() < size) name += unit;
      const std::string path = to_file_path(name);
      for (const std::string& part : components_of(path)) EXPECT_TRUE(is_valid_component(part));
      EXPECT_EQ(from_file_path(path), name);
    }
  }
}

TEST(FileName, KnowsOnlyItsOwnPaths) {
  for (const std::string path :
       {"",   "/",   "a//b",  "/a",   "a/",  ".",    "..",        "a/./b",
        "%",  "a%",  "%4",    "%4G",  "%41", "%2e",  "%2",        "a%2Fb",
        "%+", "a%+", "a%+/b", "a%+b", "\n",  "\xff", "%E5%B1%82", "a%2Enpy"}) {
    EXPECT_EQ(from_file_path(path), std::nullopt) << path;
  }
  EXPECT_EQ(from_file_path(std::string(201, 'a')), std::nullopt);
}

TEST(FileName, RefusesTheEmptyName) {
  test::expect_error(ErrorKind::kInternal, {"empty"}, [] { to_file_path(""); });
}

TEST(FileName, MapsRandomNamesToPathsOfTheirOwnAndBack) {
  const char* fixed = std::getenv("RESHARDFS_SEED");
  const std::uint64_t seed =
      fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("RESHARDFS_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::string> pieces{"/",
                                        "/",
                                        ".",
                                        "..",
                                        "%",
                                        "%+",
                                        "%2E",
                                        "2F",
                                        "+",
                                        "a",
                                        "b",
                                        ".npy",
                                        "层",
                                        "é",
                                        "😀",
                                        "\n",
                                        "\x7f",
                                        "\xff",
                                        "\xe5",
                                        "\xc2\x85",
                                        "é.npy/",
                                        std::string(1, '\0'),
                                        std::string(190, 'x'),
                                        std::string(199, 'y'),
                                        std::string(66, '%')};
  std::map<std::string, std::string> name_of;
  std::set<std::string> files;
  std::set<std::string> directories;
  for (int round = 0; round < 20'000; ++round) {
    std::string name;
    for (auto count = 1 + random() % 6; count > 0; --count)
      name += pieces[random() % pieces.size()];
    const std::string path = to_file_path(name);
    const auto [entry, is_new] = name_of.emplace(path, name);
    ASSERT_EQ(entry->second, name) << "two names of " << path;
    ASSERT_EQ(from_file_path(path), name);
    for (const std::string& part : components_of(path))
      ASSERT_TRUE(is_valid_component(part)) << path;
    files.insert(path + std::string(kParameterFileExtension));
    for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
      directories.insert(path.substr(0, at));
    }
  }
  for (const std::string& directory : directories) {
    ASSERT_FALSE(files.contains(directory)) << directory;
  }
}

TEST(PlainFileName, IsAnEntryOfADirectory) {
  using namespace std::string_view_literals;
  for (const auto name : {"a"sv, "a.b"sv, "..."sv, " "sv, "-model-0.safetensors"sv, "\x01\xff"sv}) {
    EXPECT_TRUE(is_plain_file_name(name)) << name;
  }
  for (const auto name : {""sv, "."sv, ".."sv, "/"sv, "/a"sv, "a/"sv, "../a"sv, "a\0b"sv, "\0"sv}) {
    EXPECT_FALSE(is_plain_file_name(name)) << name;
  }
}

TEST(WithoutTrailingSlash, NamesTheDirectoryItself) {
  EXPECT_EQ(without_trailing_slash("a/b/"), "a/b");
  EXPECT_EQ(without_trailing_slash("/a/"), "/a");
  for (const char* name : {"a", "a/b", "/a", ".", "..", "/", ""}) {
    EXPECT_EQ(without_trailing_slash(name), name);
  }
}

}  // namespace
}  // namespace reshardfs
