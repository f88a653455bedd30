// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "storage/backend.h"
#include "storage/location.h"
#include "support/errors.h"
#include "support/listings.h"
#include "support/s3_stand_in.h"
#include "support/temp_dir.h"
#include "support/web_stand_in.h"

namespace reshardfs {
namespace {

using test::expect_error;
using Names = std::vector<std::string>;

class UrlListTest : public testing::Test {
 protected:
  /// Lists are read once: each gets a name of its own.
  std::filesystem::path list_of(const std::string& json) {
    return absolute_source(directory_.write(std::to_string(++lists_) + ".json", json).string());
  }
  static Names names(const std::filesystem::path& location) {
    return test::names_of(url_list_backend().list(location));
  }
  void refuses(const std::string& json, const std::string& words) {
    expect_error(ErrorKind::kBadInput, {words, ".json"}, [&] { names(list_of(json)); });
  }

  test::TempDir directory_;

 private:
  unsigned lists_ = 0;
};

TEST_F(UrlListTest, ObjectsNameTheirUrls) {
  const auto root = list_of(R"({"rank_1/b.ckpt": "https://h/x?sig=1", "rank_1/a.ckpt": "s3://b/k",
                               "rank_0/deep/er/c": "http://h/y", "top": "HTTP://h/z",
                               "rank_0-x": "http://h/1", "rank_1.d": "http://h/1"})");
  EXPECT_EQ(names(root), (Names{"rank_0/", "rank_0-x", "rank_1/", "rank_1.d", "top"}));
  EXPECT_EQ(names(list_of(R"({"a-b": "http://h/1", "a/x": "http://h/2"})")), (Names{"a/", "a-b"}));
  EXPECT_EQ(names(root / "rank_1"), (Names{"a.ckpt", "b.ckpt"}));
  EXPECT_EQ(names(root / "rank_1/"), (Names{"a.ckpt", "b.ckpt"}));
  EXPECT_EQ(names(root / "rank_0"), Names{"deep/"});
  EXPECT_EQ(names(root / "rank_0/deep/er"), Names{"c"});
}

TEST_F(UrlListTest, TellsKinds) {
  const Backend& backend = url_list_backend();
  const auto root = list_of(R"({"d/e/f": "https://h/x"})");
  EXPECT_EQ(backend.kind(root), PathKind::kDirectory);
  EXPECT_EQ(backend.kind(root / "d"), PathKind::kDirectory);
  EXPECT_EQ(backend.kind(root / "d/e"), PathKind::kDirectory);
  EXPECT_EQ(backend.kind(root / "d/e/f"), PathKind::kOther);
  for (const char* name : {"d/e/f/g", "d/e/", "x", "d/ef", "e", "d/e/g"}) {
    EXPECT_EQ(backend.kind(root / name),
              std::string(name) == "d/e/" ? PathKind::kDirectory : PathKind::kMissing)
        << name;
  }
}

TEST_F(UrlListTest, ArraysAreNamedByWhatPathsDoNotShare) {
  EXPECT_EQ(names(list_of(R"(["https://h/a/b/rank_0/x.ckpt?s=1", "https://h/a/b/rank_1/x.ckpt"])")),
            (Names{"rank_0/", "rank_1/"}));
  EXPECT_EQ(names(list_of(R"(["https://h/a/b/x.ckpt?sig=a/b"])")), Names{"x.ckpt"});
  EXPECT_EQ(names(list_of(R"(["https://h/a/bc", "https://h/a/bd/e"])")), (Names{"bc", "bd/"}));
  EXPECT_EQ(names(list_of(R"(["https://h/a/x", "s3://h/b/x"])")), (Names{"a/", "b/"}));
  EXPECT_EQ(names(list_of(R"(["https://h/x", "https://i/x"])")), (Names{"h/", "i/"}));
  EXPECT_EQ(names(list_of(R"(["https://h/a%20b/%C3%A9%2B", "https://h/a%20b/c"])")),
            (Names{"c", "é+"}));
}

TEST_F(UrlListTest, MayLieInADirectoryOfSuchAName) {
  const auto path = directory_.write("d.json/e.json/list.json", R"({"a/b": "https://h/x"})");
  EXPECT_EQ(names(absolute_source(path.string())), Names{"a/"});
  EXPECT_EQ(names(absolute_source(path.string()) / "a"), Names{"b"});
  expect_error(ErrorKind::kBadInput, {"directory", "e.json"},
               [&] { names("urls://" + path.parent_path().string()); });
}

TEST_F(UrlListTest, FilesAreOpenedWhereTheirURLsLead) {
  test::WebStandIn server(
      [](const auto& request) { return test::part_of("web", request, {"ETag: \"v1\""}); });
  test::S3StandIn::process().hold({{"key", {"object"}}});
  const auto root =
      list_of(R"({"web": ")" + server.origin() + R"(/x", "object": "s3://bucket/key"})");
  const ByteSourcePtr web = url_list_backend().open(root / "web");
  EXPECT_EQ(web->size(), 3U);
  EXPECT_EQ(web->name(), (root / "web").string());
  const ByteSourcePtr object = url_list_backend().open(root / "object");
  EXPECT_EQ(object->size(), 6U);
  EXPECT_EQ(object->name(), "s3://bucket/key");
}

TEST_F(UrlListTest, MissingFilesAreMissing) {
  const auto root = list_of(R"({"d/f": "https://h/x"})");
  const Backend& backend = url_list_backend();
  for (const char* name : {"x", "d", "d/f/g", ""}) {
    expect_error(ErrorKind::kMissing, {"no such file"}, [&] { backend.open(root / name); });
  }
  for (const char* name : {"x", "d/f", "d/x"}) {
    expect_error(ErrorKind::kMissing, {"no such directory"}, [&] { backend.list(root / name); });
  }
  const auto lost = absolute_source("/nonexistent/list.json");
  expect_error(ErrorKind::kMissing, {"/nonexistent/list.json"}, [&] { backend.list(lost); });
  expect_error(ErrorKind::kMissing, {"/nonexistent/list.json"}, [&] { backend.kind(lost); });
}

TEST_F(UrlListTest, RefusesWhatIsNoList) {
  for (const char* json :
       {"", "x", "1", "null", "\"https://h/x\"", "[", "{\"a\": }", "[\"\xff\"]"}) {
    refuses(json, "is not a list of URLs");
  }
  refuses("[]", "no URLs");
  refuses("{}", "no URLs");
  refuses(R"(["https://h/x", 1])", "an entry that is not a URL");
  refuses(R"({"a": {"b": "https://h/x"}})", "an entry that is not a URL");
  refuses(R"(["https://h/x?a", "https://h/x?b"])", "two URLs with one path");
  expect_error(ErrorKind::kUsage, {"index of a model"},
               [&] { names(list_of(R"({"weight_map": {"a": "b.safetensors"}})")); });
}

TEST_F(UrlListTest, RefusesUrlsThatNobodyReads) {
  for (const char* url :
       {"/etc/passwd", "file:///etc/passwd", "ftp://h/x", "", "rank_0/x", "urls:///other.json"}) {
    refuses("[\"" + std::string(url) + "\"]", "which is not a URL");
  }
  // The message must not have a signature in it.
  try {
    names(list_of(R"(["ftp://me:secret@h/x?sig=secret"])"));
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("secret@"), std::string::npos) << error.what();
  }
}

TEST_F(UrlListTest, RefusesNamesThatNoPathHas) {
  for (const char* name :
       {"", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a/.", "a\\u0000b"}) {
    refuses("{\"" + std::string(name) + "\": \"https://h/x\"}", "not one of a file");
  }
  refuses(R"(["https://h/a/%2e%2e/b", "https://h/a/c"])", "not one of a file");
  refuses(R"(["https://h/a/"])", "not one of a file");
}

TEST_F(UrlListTest, ANameIsOfAFileOrOfADirectory) {
  refuses(R"({"a": "https://h/1", "a-b": "https://h/2", "a/b": "https://h/3"})", "'a'");
}

TEST_F(UrlListTest, ManyUrlsAreNoEffort) {
  std::string json = "[";
  Names expected;
  for (int i = 0; i < 50'000; ++i) {
    json += (i == 0 ? "\"" : ",\"") + std::string("https://host/a/b/part_") + std::to_string(i) +
            "?signature=0123456789abcdef\"";
    expected.push_back("part_" + std::to_string(i));
  }
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names(list_of(json + "]")), expected);
}

}  // namespace
}  // namespace reshardfs
