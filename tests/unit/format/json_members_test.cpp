// SPDX-License-Identifier: Apache-2.0
#include "format/json_members.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::array<std::string_view, 2> kObjects{"one", "two"};
constexpr std::array<std::string_view, 1> kUnneeded{"skip"};

/// "one.a={"x":1}" of each member.
std::vector<std::string> members(const std::string& json) {
  std::vector<std::string> out;
  const test::MemorySource source(json);
  read_json_members(source, kObjects, kUnneeded,
                    [&](std::string_view object, const std::string& name, const auto& value) {
                      out.push_back(std::string(object) + "." + name + "=" + value.dump());
                    });
  return out;
}

void expect_bad(const std::string& json, std::initializer_list<std::string> words) {
  test::expect_error(ErrorKind::kBadInput, words, [&] { members(json); });
}

TEST(JsonMembers, AreGivenInTheirOrder) {
  EXPECT_THAT(members(R"({"two": {"b": [1, [2, {"x": []}], -3], "a": null},
                          "one": {"c": {"x": 1.5, "y": {"z": true}}, "d": "text"}})"),
              ElementsAre(R"(two.b=[1,[2,{"x":[]}],-3])", "two.a=null",
                          R"(one.c={"x":1.5,"y":{"z":true}})", R"(one.d="text")"));
  EXPECT_THAT(members(R"({"one": {}, "two": {}})"), IsEmpty());
}

TEST(JsonMembers, LeaveOutWhatIsNotNeeded) {
  EXPECT_THAT(members(R"({"x": [{"one": {"a": 1}}], "one": {"a": {"skip": {"skip": [1, {}]},
                          "b": [{"skip": 1, "c": 2}, 3]}, "skip": 5}, "y": {"two": {"a": 1}},
                          "two": {"a": {"b": {"skip": [[]], "d": {}}, "e": 1}}, "z": 1})"),
              ElementsAre(R"(one.a={"b":[{"c":2,"skip":null},3],"skip":null})", "one.skip=5",
                          R"(two.a={"b":{"d":{},"skip":null},"e":1})"));
}

TEST(JsonMembers, AreRefusedWhereTheFileIsAnother) {
  expect_bad("", {"is no JSON"});
  expect_bad(R"({"one": {}, "two": {})", {"is no JSON"});
  expect_bad(R"({"one": {}, "two": {}} x)", {"is no JSON"});
  expect_bad("{\"one\": {\"\xff\": 1}, \"two\": {}}", {"is no JSON"});
  for (const char* const other : {"[]", "1", "null", "\"one\""}) {
    expect_bad(other, {"holds no JSON object"});
    expect_bad(std::string(R"({"two": {}, "one": )") + other + "}", {"its one is no object"});
  }
  expect_bad(R"({"one": {}})", {"its two is missing"});
  expect_bad(R"({"one": {}, "two": {}, "one": {}})", {"its one stands twice"});
}

TEST(JsonMembers, AreRefusedWithAKeyThatStandsTwice) {
  expect_bad(R"({"one": {"a": {"x": 1, "y": 2, "x": 1}}, "two": {}})", {"'a'", "'x'", "twice"});
  expect_bad(R"({"one": {"a": [{"skip": 1, "skip": 2}]}, "two": {}})", {"'a'", "'skip'", "twice"});
  EXPECT_THAT(members(R"({"one": {"a": {"skip": {"x": 1, "x": 2}}}, "two": {}})"),
              ElementsAre(R"(one.a={"skip":null})"));
}

TEST(JsonMembers, AreBounded) {
  const std::string deep(1'000'000, '[');
  expect_bad(R"({"one": {"a": )" + deep, {"'a'", "nested too deeply"});
  expect_bad(R"({"x": )" + deep, {"is no JSON"});
  expect_bad(R"({"one": {"a": {"skip": )" + deep, {"is no JSON"});
  std::string many = R"({"one": {"a": [0)";
  for (std::size_t i = 0; i < kMaxMemberValues; ++i) many += ",0";
  expect_bad(many + "]}}", {"'a'", "the limit"});
}

// A block of the stream may end anywhere.
TEST(JsonMembers, AreReadOverTheBordersOfBlocks) {
  std::string json = R"({"two": {}, "one": {)";
  std::vector<std::string> expected;
  for (int i = 0; json.size() < 1'500'000; ++i) {
    const std::string name = "é" + std::to_string(i);
    json +=
        (i == 0 ? "\"" : ", \"") + name + R"(": {"skip": [1, 2], "n": )" + std::to_string(i) + "}";
    expected.push_back("one." + name + R"(={"n":)" + std::to_string(i) + R"(,"skip":null})");
  }
  EXPECT_EQ(members(json + "}}"), expected);
}

TEST(JsonMembers, PassOnWhatTheirTakerThrows) {
  const test::MemorySource source(R"({"one": {"a": 1}, "two": {}})");
  EXPECT_THROW(read_json_members(source, kObjects, {},
                                 [](auto, const auto&, const auto&) {
                                   throw Error(ErrorKind::kUsage, "enough");
                                 }),
               Error);
}

}  // namespace
}  // namespace reshardfs
