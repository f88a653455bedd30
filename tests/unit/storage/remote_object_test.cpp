// SPDX-License-Identifier: Apache-2.0
#include "storage/remote/remote_object.h"

#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/process/counters.h"
#include "support/errors.h"
#include "support/web_stand_in.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::part_of;
using test::WebAnswer;
using test::WebRequest;
using test::WebStandIn;

constexpr const char* kDate = "Sat, 31 Jan 2026 12:34:56 GMT";
constexpr std::int64_t kDateNs = 1'769'862'896'000'000'000;
const std::vector<std::string> kStrong{"ETag: \"v1\"", std::string("Last-Modified: ") + kDate};
const std::vector<std::string> kWeak{std::string("Last-Modified: ") + kDate};
/// The bytes that the tests ask for of kContent.
constexpr std::uint64_t kBegin = 3;
constexpr std::uint64_t kLength = 8;
const std::string kContent = "0123456789abcdefghij";

/// A file of a server, which is opened by one answer and read by others.
class RemoteObjectTest : public testing::Test {
 protected:
  RangeFetcherPtr open() {
    return open_remote_object({.name = "the object", .request = [this] {
                                 HttpRequest request;
                                 request.url = server_.origin() + "/file";
                                 request.name = "the object";
                                 return request;
                               }});
  }
  RangeFetcherPtr open_with(WebStandIn::Answer answer) {
    server_.answer_with(std::move(answer));
    return open();
  }
  RangeFetcherPtr open_as(const std::vector<std::string>& headers) {
    return open_with([headers](const WebRequest& r) { return part_of(kContent, r, headers); });
  }

  static void fetch(const RangeFetcher& object, const ByteRange& range,
                    std::vector<std::span<std::byte>> out) {
    std::promise<void> over;
    object.fetch(range, std::move(out), Foresight::kNow, [&](const std::exception_ptr& failure) {
      if (failure) {
        over.set_exception(failure);
      } else {
        over.set_value();
      }
    });
    over.get_future().get();
  }
  /// Reads the range into pieces of memory of 5 and 3 bytes.
  static std::string read(const RangeFetcher& object) {
    std::string out(kLength, '.');
    const auto bytes = std::as_writable_bytes(std::span(out));
    fetch(object, {kBegin, kLength}, {bytes.first(5), bytes.subspan(5)});
    return out;
  }
  std::string read_with(const RangeFetcher& object, WebStandIn::Answer answer) {
    server_.answer_with(std::move(answer));
    return read(object);
  }
  /// Opens the file, and reads it when its server answers otherwise.
  void expect_read(ErrorKind kind, const std::string& words, const WebStandIn::Answer& answer,
                   const std::vector<std::string>& version = kStrong) {
    const RangeFetcherPtr object = open_as(version);
    expect_error(kind, {words, "the object"}, [&] { read_with(*object, answer); });
    if (kind != ErrorKind::kChanged) {
      object->check_unchanged();
      return;
    }
    expect_error(kind, {words}, [&] { object->check_unchanged(); });
  }
  void expect_open(ErrorKind kind, const std::string& words, WebStandIn::Answer answer) {
    expect_error(kind, {words, "the object"}, [&] { open_with(std::move(answer)); });
  }

  WebStandIn server_;
};

/// What has been read of web servers.
SourceValues counted() {
  return counters().values().sources.at(static_cast<std::size_t>(SourceKind::kHttp));
}

std::vector<std::string> with(std::vector<std::string> headers, const std::string& more) {
  headers.push_back(more);
  return headers;
}

/// The answer to the range that the tests read.
WebAnswer answer_of(std::vector<std::string> headers, const std::string& range,
                    const std::string& body) {
  headers.push_back("Content-Range: bytes " + range);
  return {206, std::move(headers), body};
}

TEST_F(RemoteObjectTest, IsOpenedByOneRequestAndReadByRanges) {
  const RangeFetcherPtr object = open_as(kStrong);
  EXPECT_EQ(object->size(), kContent.size());
  EXPECT_EQ(object->mtime_ns(), kDateNs);
  EXPECT_TRUE(object->is_opened());
  ASSERT_EQ(server_.requests().size(), 1U);
  EXPECT_EQ(server_.requests()[0].headers.at("range"), "bytes=0-16383");
  const SourceValues before = counted();
  EXPECT_EQ(read(*object), "3456789a");
  ASSERT_EQ(server_.requests().size(), 2U);
  EXPECT_EQ(server_.requests()[1].headers.at("range"), "bytes=3-10");
  EXPECT_EQ(server_.requests()[1].headers.at("if-match"), "\"v1\"");
  EXPECT_EQ(counted().bytes - before.bytes, kLength);
  EXPECT_EQ(counted().errors, before.errors);
  object->check_unchanged();
}

TEST_F(RemoteObjectTest, WithoutAStrongETagItsTimeIsItsVersion) {
  for (const auto& headers : {kWeak, with(kWeak, "ETag: W/\"v1\"")}) {
    const RangeFetcherPtr object = open_as(headers);
    EXPECT_EQ(object->identity(), "");
    EXPECT_EQ(read(*object), "3456789a");
    EXPECT_EQ(server_.requests()[1].headers.at("if-unmodified-since"), kDate);
  }
  EXPECT_NE(open_as(kStrong)->identity(), "");
}

TEST_F(RemoteObjectTest, WithoutATimeOrWithOneBefore1970ItHasNone) {
  EXPECT_EQ(open_as({"ETag: \"v1\""})->mtime_ns(), 0);
  for (const char* date : {"yesterday", "Wed, 31 Dec 1969 23:00:00 GMT"}) {
    EXPECT_EQ(open_as({"ETag: \"v1\"", std::string("Last-Modified: ") + date})->mtime_ns(), 0);
  }
}

TEST_F(RemoteObjectTest, WithoutAVersionItIsRefusedUnlessItIsEmpty) {
  const auto answer = [](const WebRequest& r) { return part_of("x", r, {}); };
  expect_open(ErrorKind::kUnsupported, "neither a strong ETag nor", answer);
  EXPECT_EQ(open_with([](const WebRequest&) { return WebAnswer{}; })->size(), 0U);
}

TEST_F(RemoteObjectTest, AnEmptyOneHasNoFirstByte) {
  const auto empty = [](std::vector<std::string> range) {
    return [range](const WebRequest& request) -> WebAnswer {
      if (request.headers.contains("range")) return {416, range, "no such range"};
      return {200, kStrong};
    };
  };
  for (const auto& range : {std::vector<std::string>{}, {"Content-Range: bytes */0"}}) {
    const RangeFetcherPtr object = open_with(empty(range));
    EXPECT_EQ(object->size(), 0U);
    EXPECT_EQ(object->mtime_ns(), kDateNs);
  }
  expect_open(ErrorKind::kIo, "416", empty({"Content-Range: bytes */5"}));
  expect_open(ErrorKind::kIo, "417", [](const WebRequest& r) -> WebAnswer {
    return {r.headers.contains("range") ? 417 : 200, kStrong};
  });
}

TEST_F(RemoteObjectTest, ServersWithoutRangesAreRefused) {
  for (const char* body : {"x", "xy"}) {
    expect_open(ErrorKind::kUnsupported, "does not serve ranges", [&](const WebRequest&) {
      return WebAnswer{200, kStrong, body};
    });
  }
}

TEST_F(RemoteObjectTest, TheFirstAnswerMustBeOfTheFirstByte) {
  expect_open(ErrorKind::kIo, "another range", [](const WebRequest&) {
    return WebAnswer{206, kStrong, "x"};
  });
  expect_open(ErrorKind::kIo, "another range",
              [](const WebRequest&) { return answer_of(kStrong, "1-1/2", "x"); });
}

TEST_F(RemoteObjectTest, ThatIsMissingOrDeniedIsNotOpened) {
  expect_open(ErrorKind::kMissing, "no such file",
              [](const WebRequest&) { return WebAnswer{404}; });
  expect_open(ErrorKind::kIo, "access is denied", [](const WebRequest&) { return WebAnswer{403}; });
}

TEST_F(RemoteObjectTest, OtherEncodingsAreRefused) {
  const auto encoded = [](const std::string& encoding) {
    return [encoding](const WebRequest& request) {
      return part_of(kContent, request, with(kStrong, "Content-Encoding: " + encoding));
    };
  };
  expect_open(ErrorKind::kIo, "the encoding 'gzip'", encoded("gzip"));
  expect_read(ErrorKind::kIo, "the encoding 'gzip'", encoded("gzip"));
  const RangeFetcherPtr object = open_with(encoded("identity"));
  EXPECT_EQ(read(*object), "3456789a");
}

TEST_F(RemoteObjectTest, AnAnswerThatIsNoRangeIsRefused) {
  expect_read(ErrorKind::kIo, "it ignores ranges", [](const WebRequest& request) {
    WebAnswer answer = part_of(kContent, request, kStrong);
    answer.status = 200;
    return answer;
  });
}

TEST_F(RemoteObjectTest, AnotherRangeThanWasAskedForIsRefused) {
  for (const char* range : {"2-10/20", "4-10/20", "3-9/20", "3-11/20", "*/20"}) {
    expect_read(ErrorKind::kIo, "another range",
                [&](const WebRequest&) { return answer_of(kStrong, range, "3456789a"); });
  }
  expect_read(ErrorKind::kIo, "another range", [](const WebRequest&) {
    return WebAnswer{206, kStrong, "3456789a"};
  });
}

TEST_F(RemoteObjectTest, AnotherLengthThanItsRangeHasIsRefused) {
  for (const char* body : {"3456789", "3456789ab"}) {
    expect_read(ErrorKind::kIo, "another length",
                [&](const WebRequest&) { return answer_of(kStrong, "3-10/20", body); });
  }
  const auto endless = [](const char* body) {
    return [body](const WebRequest&) {
      WebAnswer answer = answer_of(kStrong, "3-10/20", body);
      answer.tells_length = false;
      return answer;
    };
  };
  expect_read(ErrorKind::kIo, "more bytes than its range", endless("3456789ab"));
  const RangeFetcherPtr object = open_as(kStrong);
  EXPECT_EQ(read_with(*object, endless("3456789a")), "3456789a");
}

/// More than libcurl hands over at a time, by far.
TEST_F(RemoteObjectTest, LongAnswersComeInParts) {
  constexpr std::size_t kParts = 8;
  std::string content(kParts << 20U, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 4U);
  const RangeFetcherPtr object =
      open_with([&](const WebRequest& r) { return part_of(content, r, kStrong); });
  std::string out(content.size(), '.');
  const auto bytes = std::as_writable_bytes(std::span(out));
  fetch(*object, ByteRange::whole(out.size()),
        {bytes.first(kParts << 19U), bytes.subspan(kParts << 19U)});
  EXPECT_TRUE(out == content);
}

TEST_F(RemoteObjectTest, AnAnswerThatIsTooShortIsAskedForAgain) {
  const RangeFetcherPtr object = open_as(kStrong);
  // The first answer ends within the second piece of memory, the next one within the first.
  std::vector<std::string> answers{"......", "..."};
  const auto answer = [&](const WebRequest&) {
    WebAnswer out = answer_of(kStrong, "3-10/20", "3456789a");
    out.tells_length = false;
    if (!answers.empty()) {
      out.body = answers.front();
      answers.erase(answers.begin());
    }
    return out;
  };
  EXPECT_EQ(read_with(*object, answer), "3456789a");
  EXPECT_EQ(server_.requests().size(), 3U);
}

TEST_F(RemoteObjectTest, AnAnswerMustStateItsVersion) {
  const auto without = [](const WebRequest& r) { return part_of(kContent, r, {}); };
  expect_read(ErrorKind::kIo, "which version", without);
  expect_read(ErrorKind::kIo, "which version", without, kWeak);
  expect_read(
      ErrorKind::kIo, "which version",
      [](const WebRequest& r) { return part_of(kContent, r, {"ETag: W/\"v1\""}); },
      with(kWeak, "ETag: W/\"v1\""));
}

TEST_F(RemoteObjectTest, AnotherVersionIsAChange) {
  const auto version = [](const std::vector<std::string>& headers) {
    return [headers](const WebRequest& r) { return part_of(kContent, r, headers); };
  };
  const std::string replaced = "has been replaced";
  const auto weak = with(kWeak, "ETag: W/\"v1\"");
  expect_read(ErrorKind::kChanged, replaced, version(with(kWeak, "ETag: \"v2\"")));
  expect_read(ErrorKind::kChanged, replaced, version(with(kWeak, "ETag: W/\"v2\"")), weak);
  expect_read(ErrorKind::kChanged, replaced,
              version({"Last-Modified: Sat, 31 Jan 2026 12:34:57 GMT"}), kWeak);
  // A strong ETag is enough.
  const RangeFetcherPtr object = open_as(kStrong);
  EXPECT_EQ(read_with(*object, version({"ETag: \"v1\"", "Last-Modified: yesterday"})), "3456789a");
  EXPECT_EQ(read_with(*object, version({"ETag: \"v1\""})), "3456789a");
}

TEST_F(RemoteObjectTest, AnotherSizeIsAChange) {
  expect_read(ErrorKind::kChanged, "has changed its size",
              [](const WebRequest&) { return answer_of(kStrong, "3-10/21", "3456789a"); });
}

TEST_F(RemoteObjectTest, RefusalsOfItsVersionAreChanges) {
  for (const auto& [status, words] :
       {std::pair(412, "has been replaced"), std::pair(404, "has been removed"),
        std::pair(410, "has been removed"), std::pair(416, "has become shorter")}) {
    expect_read(ErrorKind::kChanged, words,
                [status = status](const WebRequest&) { return WebAnswer{status}; });
  }
  const SourceValues before = counted();
  expect_read(ErrorKind::kIo, "access is denied", [](const WebRequest&) { return WebAnswer{403}; });
  EXPECT_EQ(counted().errors - before.errors, 1U);
}

TEST_F(RemoteObjectTest, TheFirstChangeIsTheReasonFromThenOn) {
  const RangeFetcherPtr object = open_as(kStrong);
  const auto status = [](int number) {
    return [number](const WebRequest&) { return WebAnswer{number}; };
  };
  expect_error(ErrorKind::kChanged, {"removed"}, [&] { read_with(*object, status(404)); });
  expect_error(ErrorKind::kChanged, {"removed"}, [&] { read_with(*object, status(412)); });
}

TEST(TimeOfList, IsInWholeSeconds) {
  EXPECT_EQ(time_of_list("2026-01-31T12:34:56.789Z"), kDateNs);
  EXPECT_EQ(time_of_list("1970-01-01T00:00:01Z"), 1'000'000'000);
  EXPECT_EQ(time_of_list("yesterday"), 0);
}

}  // namespace
}  // namespace reshardfs
