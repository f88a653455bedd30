// SPDX-License-Identifier: Apache-2.0
#include "format/json/json_members.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::json_members_tests {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::array<std::string_view, 2> kObjects{"one", "two"};
constexpr std::array<std::string_view, 1> kUnneeded{"skip"};

std::string dump(const JsonValue& value) {
  switch (value.kind()) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBoolean:
      return *value.boolean() ? "true" : "false";
    case JsonKind::kInteger:
      return std::to_string(*value.integer());
    case JsonKind::kOtherNumber:
      return "other";
    case JsonKind::kText:
      return '"' + std::string(*value.text()) + '"';
    case JsonKind::kList:
    case JsonKind::kObject:
      break;
  }
  std::string text;
  std::size_t count = 0;
  for (const JsonValue entry : value) {
    if (count++ > 0) text += ',';
    if (value.is_object()) text += '"' + std::string(entry.key()) + "\":";
    text += dump(entry);
  }
  EXPECT_EQ(value.size(), count);
  return value.is_list() ? "[" + text + "]" : "{" + text + "}";
}

/// "one.a={"x":1}" of each member.
std::vector<std::string> members(const std::string& json) {
  std::vector<std::string> out;
  const test::MemorySource source(json);
  read_json_members(
      source, kObjects, kUnneeded,
      [&](std::string_view object, std::string_view name, const JsonValue& value) {
        out.push_back(std::string(object) + "." + std::string(name) + "=" + dump(value));
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
                          R"(one.c={"x":other,"y":{"z":true}})", R"(one.d="text")"));
  EXPECT_THAT(members(R"({"one": {}, "two": {}})"), IsEmpty());
}

TEST(JsonMembers, LeaveOutWhatIsNotNeeded) {
  EXPECT_THAT(members(R"({"x": [{"one": {"a": 1}}], "one": {"a": {"skip": {"skip": [1, {}]},
                          "b": [{"skip": 1, "c": 2}, 3]}, "skip": 5}, "y": {"two": {"a": 1}},
                          "two": {"a": {"b": {"skip": [[]], "d": {}}, "e": 1}}, "z": 1})"),
              ElementsAre(R"(one.a={"skip":null,"b":[{"skip":null,"c":2},3]})", "one.skip=5",
                          R"(two.a={"b":{"skip":null,"d":{}},"e":1})"));
}

TEST(JsonMembers, AreRefusedWhereTheFileIsAnother) {
  expect_bad("", {"is not valid JSON"});
  expect_bad(R"({"one": {}, "two": {})", {"is not valid JSON"});
  expect_bad(R"({"one": {}, "two": {}} x)", {"is not valid JSON"});
  expect_bad("{\"one\": {\"\xff\": 1}, \"two\": {}}", {"is not valid JSON"});
  for (const char* const other : {"[]", "1", "null", "\"one\""}) {
    expect_bad(other, {"holds no JSON object"});
    expect_bad(std::string(R"({"two": {}, "one": )") + other + "}", {"its one is not an object"});
  }
  expect_bad(R"({"one": {}})", {"its two is missing"});
  expect_bad(R"({"one": {}, "two": {}, "one": {}})", {"its one appears twice"});
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
  expect_bad(R"({"x": )" + deep, {"nested too deeply"});
  expect_bad(R"({"one": {"a": {"skip": )" + deep, {"'a'", "nested too deeply"});
  const std::string deepest =
      std::string(kMaxMemberDepth - 2, '[') + "1" + std::string(kMaxMemberDepth - 2, ']');
  EXPECT_THAT(members(R"({"one": {"a": )" + deepest + R"(}, "two": {}, "x": [)" + deepest + "]}"),
              ElementsAre("one.a=" + deepest));
  expect_bad(R"({"one": {"a": [)" + deepest + "]}}", {"'a'", "nested too deeply"});

  std::string many = R"({"one": {"a": [0)";
  for (std::size_t i = 2; i < kMaxMemberValues; ++i) many += ",0";
  EXPECT_EQ(members(many + R"(]}, "two": {}})").size(), 1U);
  expect_bad(many + ",0]}}", {"'a'", "more than 4000000 values, which is the limit"});
  EXPECT_EQ(
      members(R"({"one": {"a": {"skip": )" + many.substr(many.find('[')) + R"(,0]}}, "two": {}})"),
      std::vector<std::string>{R"(one.a={"skip":null})"});
}

TEST(JsonMembers, HaveSoManyKeysAtMost) {
  std::string keys;
  for (std::size_t i = 1; i < kMaxMemberKeys; ++i) keys += "\"" + std::to_string(i) + "\": {}, ";
  EXPECT_EQ(members(R"({"two": {}, "one": {"a": {)" + keys + R"("skip": 0}}})").size(), 1U);
  expect_bad(R"({"two": {}, "one": {"a": [{)" + keys + R"("skip": 0, "z": 0}]}})",
             {"'a'", "an object of more than 64 keys, which is the limit"});
}

// As long as memory lasts a hostile file could go on with one text, or with many.
TEST(JsonMembers, HaveTextsOfSoManyBytesAtMost) {
  const std::string text = '"' + std::string(kMaxJsonTokenBytes, 'x') + '"';
  std::string texts = text;
  for (std::size_t bytes = kMaxJsonTokenBytes; bytes < kMaxMemberTextBytes - 1;
       bytes += kMaxJsonTokenBytes) {
    texts += ',' + text;
  }
  expect_bad(R"({"one": {"a": [)" + texts + R"(, "x"]}})",
             {"'a'", "texts of more than 134217728 bytes, which is the limit"});
  const std::string words = "more than 16777216 bytes without a value, which is the limit";
  expect_bad(R"({"x": ")" + std::string(2 * kMaxJsonTokenBytes, 'x') + R"("})", {words});
  expect_bad(R"({"x": )" + std::string(2 * kMaxJsonTokenBytes, ' ') + "1}", {words});
}

TEST(JsonMembers, AreRefusedIfTheirTextIsNoUnicode) {
  const auto bad = [](const std::string& text) {
    expect_bad(R"({"two": {}, "one": {"a": ")" + text + "\"}}", {"is not valid JSON"});
    expect_bad(R"({"two": {}, "one": {}, "x": {")" + text + R"(": 1}})", {"is not valid JSON"});
  };
  for (const char* const text :
       {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\\ud800", "\\udc00",
        "\\ud800\\u0041", "\\ud800x", "\\u12", "\\x41", "\n", "\x1f"}) {
    bad(text);
  }
  bad(std::string(1, '\0'));
  EXPECT_THAT(members(R"({"two": {}, "one": {"\u00e9\u0000": "\ud83d\ude00\/"}})"),
              ElementsAre(std::string("one.\303\251\0=\"\360\237\230\200/\"", 15)));
}

TEST(JsonMembers, EndWithTheFile) {
  const std::string good = R"({"two": {}, "one": {"a": 1}})";
  EXPECT_THAT(members(" \t\r\n" + good + "\n "), ElementsAre("one.a=1"));
  EXPECT_THAT(members("\xef\xbb\xbf" + good), ElementsAre("one.a=1"));
  expect_bad(good + std::string(1, '\0'), {"is not valid JSON"});
  expect_bad(good + std::string(1, '\0') + good, {"is not valid JSON"});
  expect_bad(std::string(1, '\0') + good, {"is not valid JSON"});
  expect_bad("\xef\xbb" + good, {"is not valid JSON"});
  expect_bad(good + good, {"is not valid JSON"});
  expect_bad("\xef\xbb\xbf", {"is not valid JSON"});
}

TEST(JsonMembers, AreIntegersIfTheyFitAndAreWrittenSo) {
  EXPECT_THAT(members(R"({"two": {}, "one": {"a": [9223372036854775807, -9223372036854775808,
                          9223372036854775808, -9223372036854775809, 1.0, 1e2, -0, 0]}})"),
              ElementsAre("one.a=[9223372036854775807,-9223372036854775808,other,other,other,other,"
                          "0,0]"));
  for (const char* const number : {"01", "+1", "1.", ".5", "-", "1e", "0x1", "NaN", "Infinity",
                                   "1e999", "1_000", "//1\n1", "1,"}) {
    expect_bad(R"({"two": {}, "one": {"a": [)" + std::string(number) + "]}}",
               {"is not valid JSON"});
  }
  expect_bad(R"({"two": {}, "one": {"a": )" + std::string(10'000, '9') + "}}",
             {"is not valid JSON"});
}

// A block of the stream may end anywhere.
TEST(JsonMembers, AreReadOverTheBordersOfBlocks) {
  std::string json = R"({"two": {}, "one": {)";
  std::vector<std::string> expected;
  for (int i = 0; json.size() < 1'500'000; ++i) {
    const std::string name = "é" + std::to_string(i);
    json +=
        (i == 0 ? "\"" : ", \"") + name + R"(": {"skip": [1, 2], "n": )" + std::to_string(i) + "}";
    expected.push_back("one." + name + R"(={"skip":null,"n":)" + std::to_string(i) + "}");
  }
  EXPECT_EQ(members(json + "}}"), expected);
}

TEST(JsonMembers, PassOnWhatTheirTakerThrows) {
  const test::MemorySource source(R"({"one": {"a": 1}, "two": {}})");
  EXPECT_THROW(
      read_json_members(source, kObjects, {},
                        [](auto, auto, const auto&) { throw Error(ErrorKind::kUsage, "enough"); }),
      Error);
}

}  // namespace
}  // namespace reshardfs::json_members_tests

namespace reshardfs::json_texts_tests {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

void expect_bad(const std::string& json, std::initializer_list<std::string> words) {
  test::expect_error(ErrorKind::kBadInput, words, [&] { read_json_texts(json, "map"); });
}

Texts texts_of(const std::string& json, std::string_view inner = {}) {
  const JsonTexts texts = read_json_texts(json, inner);
  return {texts.members.begin(), texts.members.end()};
}

TEST(JsonTexts, AreReadInTheirOrder) {
  EXPECT_EQ(texts_of(R"({"b": "1", "a": "", "\u00e9": "2"})"),
            (Texts{{"b", "1"}, {"a", ""}, {"é", "2"}}));
  EXPECT_EQ(texts_of("{}"), Texts{});
}

TEST(JsonTexts, KeepAnObjectBesideTheInnerOne) {
  const auto beside = [](const std::string& json) {
    return read_json_texts(json, "map", "metadata").beside;
  };
  EXPECT_EQ(beside(R"({"metadata": {"size": 1.50, "x": ["y"]}, "map": {"a": "1"}})"),
            R"({"metadata":{"size":1.50,"x":["y"]}})");
  EXPECT_EQ(beside(R"({"map": {"a": "1"}, "metadata": {}, "z": {"metadata": {"b": 2}}})"),
            R"({"metadata":{}})");
  EXPECT_EQ(beside(R"({"map": {"metadata": "1"}, "metadata": "2"})"), "{}");
  EXPECT_EQ(read_json_texts(R"({"metadata": "2"})", "map", "metadata").members.front().first,
            "metadata");
  expect_bad(R"({"metadata": {}, "a": 1})", {"'metadata'", "an object", "expected a text"});
  test::expect_error(ErrorKind::kBadInput, {"'metadata'", "an object"},
                     [&] { beside(R"({"metadata": {"size": 1}})"); });
}

TEST(JsonTexts, CopyOnlyWhatIsWrittenWithEscapes) {
  const JsonTexts texts = read_json_texts(R"({"a": "1", "\u00e9": "2", "b": "\n3", "": ""})");
  EXPECT_THAT(texts.unescaped, testing::ElementsAre("é", "\n3"));
  const JsonTexts moved = [] { return read_json_texts(R"({"a": "1"})"); }();
  EXPECT_EQ(moved.members.front().first.data(), moved.json->data() + 2);
}

TEST(JsonTexts, AreThoseOfTheInnerObjectIfThereIsOne) {
  const Texts expected{{"a", "1"}};
  EXPECT_EQ(texts_of(R"({"a": "1"})", "map"), expected);
  EXPECT_EQ(texts_of(R"({"map": {"a": "1"}})", "map"), expected);
  EXPECT_EQ(texts_of(R"({"x": [{"map": "2"}], "a": "2", "map": {"a": "1"}, "y": "3",
                                "z": {"map": {"a": "4"}}, "n": null})",
                     "map"),
            expected);
}

TEST(JsonTexts, RefuseWhatIsNoMapOfTexts) {
  expect_bad("", {"is not valid JSON"});
  expect_bad(R"({"a": "1")", {"is not valid JSON"});
  expect_bad(R"({"a": "1"} x)", {"is not valid JSON"});
  for (const char* other : {"[]", "\"a\"", "5", "null", "true", "1.5"}) {
    expect_bad(other, {"must be a JSON object"});
    if (other[0] == '"') continue;
    const std::string value = other;
    expect_bad(R"({"a": )" + value + "}", {"'a'", "expected a text"});
    expect_bad(R"({"map": {"a": )" + value + "}}", {"'a'", "expected a text"});
  }
  expect_bad(R"({"map": "a"})", {"its map is not an object"});
  expect_bad(R"({"map": [{"a": "1"}]})", {"its map is not an object"});
  expect_bad(R"({"map": {"a": {"b": "1"}}})", {"'a'", "an object", "expected a text"});
}

// Other readers take the last: then what the first says is lost.
TEST(JsonTexts, RefuseANameThatStandsTwice) {
  expect_bad(R"({"a": "1", "b": "2", "a": "1"})", {"'a'", "appears twice"});
  expect_bad(R"({"map": {"a": "1"}, "map": {"b": "1"}})", {"its map appears twice"});
}

TEST(JsonTexts, KeepNothingOfWhatIsPassedOver) {
  const std::string deep(1'000'000, '[');
  expect_bad(R"({"x": )" + deep, {"is nested too deeply"});
  const std::string many = "[" + std::string(1'000'000, ' ') + "1]";
  EXPECT_EQ(texts_of(R"({"x": )" + many + R"(, "map": {"a": "1"}})", "map"), (Texts{{"a", "1"}}));
}

TEST(JsonTexts, AreLimited) {
  std::string json = "{";
  for (std::size_t i = 0; i <= kMaxJsonTexts; ++i) json += R"("a":"",)";
  expect_bad(json, {"more than 2000000 members"});
}

}  // namespace
}  // namespace reshardfs::json_texts_tests
