// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "storage/backend.h"
#include "storage/location.h"
#include "support/errors.h"
#include "support/listings.h"
#include "support/web_stand_in.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::WebAnswer;
using test::WebRequest;
using test::WebStandIn;
using Names = std::vector<std::string>;

class WebBackendTest : public testing::Test {
 protected:
  Names names(const std::filesystem::path& location) {
    return test::names_of(web_backend().list(location));
  }
  void answer(const WebAnswer& answer) {
    server_.answer_with([answer](const WebRequest&) { return answer; });
  }
  std::string last_target() { return server_.requests().back().target; }
  std::filesystem::path at(const std::string& path) { return server_.origin() + path; }
  /// The kind of "/d" where a server answers with these statuses by method and target.
  PathKind kind_by(const std::map<std::string, int>& statuses) {
    server_.answer_with([statuses](const WebRequest& request) {
      const auto found = statuses.find(request.method + " " + request.target);
      return WebAnswer{found == statuses.end() ? 404 : found->second};
    });
    return web_backend().kind(at("/d"));
  }

  WebStandIn server_;
};

TEST_F(WebBackendTest, ListsLinksByName) {
  answer({200, {}, "<a href='b'> <a href='../'> <a href='c/'> <a href='a'>"});
  EXPECT_EQ(names(at("/d")), (Names{"a", "b", "c/"}));
  answer({200,
          {"Content-Type: application/json"},
          R"([{"name": "z", "type": "directory"}, {"name": "y", "type": "file"}])"});
  EXPECT_EQ(names(at("/d")), (Names{"y", "z/"}));
}

TEST_F(WebBackendTest, ADirectoryIsAskedForWithASlashAtItsEnd) {
  answer({});
  for (const auto& [path, target] :
       {std::pair("/d", "/d/"), std::pair("/d/", "/d/"), std::pair("", "/"), std::pair("/", "/")}) {
    EXPECT_EQ(names(at(path)), Names{});
    EXPECT_EQ(last_target(), target);
  }
  for (const auto& [path, target] :
       {std::pair("/e?x=1", "/e/?x=1"), std::pair("/e/?x=1", "/e/?x=1"),
        std::pair("/?x=1", "/?x=1")}) {
    EXPECT_EQ(names(absolute_location(server_.origin() + path)), Names{});
    EXPECT_EQ(last_target(), target);
  }
}

TEST_F(WebBackendTest, AListThatIsRefusedIsAnError) {
  answer({404});
  expect_error(ErrorKind::kMissing, {"no such directory"}, [&] { names(at("/d")); });
  answer({403});
  expect_error(ErrorKind::kIo, {"does not list the directory (403)", "autoindex"},
               [&] { names(at("/d")); });
  answer({405});
  expect_error(ErrorKind::kIo, {"the server answers 405"}, [&] { names(at("/d")); });
}

TEST_F(WebBackendTest, AListOfMoreThan64MiBIsRefused) {
  answer({200, {}, std::string((64U << 20U) + 1, ' ')});
  expect_error(ErrorKind::kBadInput, {"more than 67108864 bytes"}, [&] { names(at("/d")); });
}

TEST_F(WebBackendTest, TellsKindsByHeads) {
  EXPECT_EQ(kind_by({{"HEAD /d/", 200}}), PathKind::kDirectory);
  EXPECT_EQ(server_.requests().size(), 1U);
  EXPECT_EQ(kind_by({{"HEAD /d", 200}}), PathKind::kOther);
  EXPECT_EQ(kind_by({{"HEAD /d", 200}, {"HEAD /d/", 403}}), PathKind::kOther);
  EXPECT_EQ(kind_by({}), PathKind::kMissing);
}

TEST_F(WebBackendTest, WithoutHeadsItAsksForAByte) {
  for (const int status : {405, 501}) {
    EXPECT_EQ(kind_by({{"HEAD /d/", status}, {"GET /d/", 200}}), PathKind::kDirectory) << status;
    EXPECT_EQ(server_.requests().back().headers.at("range"), "bytes=0-0");
    EXPECT_EQ(kind_by({{"HEAD /d/", status}}), PathKind::kMissing) << status;
  }
}

TEST_F(WebBackendTest, AKindThatCannotBeToldIsAnError) {
  for (const int status : {400, 406, 505}) {
    expect_error(ErrorKind::kIo, {"the server answers " + std::to_string(status)}, [&] {
      kind_by({{"HEAD /d/", status}});
    });
  }
  const std::vector<std::map<std::string, int>> denied{{{"HEAD /d/", 403}}, {{"HEAD /d", 403}}};
  for (const auto& statuses : denied) {
    expect_error(ErrorKind::kIo, {"does not list the directory (403)"}, [&] { kind_by(statuses); });
  }
}

TEST_F(WebBackendTest, ASignedURLIsAFile) {
  answer({404});
  const auto location = absolute_location(server_.origin() + "/f?signature=1");
  EXPECT_EQ(web_backend().kind(location), PathKind::kOther);
  EXPECT_EQ(server_.requests().size(), 0U);
}

TEST_F(WebBackendTest, OpensFiles) {
  server_.answer_with(
      [](const WebRequest& r) { return test::part_of("content", r, {"ETag: \"v1\""}); });
  const ByteSourcePtr source = web_backend().open(at("/d/f"));
  EXPECT_EQ(source->size(), 7U);
  EXPECT_EQ(source->name(), server_.origin() + "/d/f");
  EXPECT_EQ(last_target(), "/d/f");
}

}  // namespace
}  // namespace reshardfs
