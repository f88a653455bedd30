// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_reader.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

/// A text in pieces of so many bytes.
class Pieces final : public JsonInput {
 public:
  Pieces(std::string text, std::size_t bytes) : text_(std::move(text)), bytes_(bytes) {}
  std::string_view next_bytes() override {
    piece_ = text_.substr(std::min(at_, text_.size()), bytes_);
    at_ += bytes_;
    return piece_;
  }

 private:
  std::string text_;
  std::size_t bytes_;
  std::size_t at_ = 0;
  std::string piece_;
};

std::string dump(JsonReader& reader) {
  const JsonKind kind = reader.kind();
  if (kind == JsonKind::kNull) return "null";
  if (kind == JsonKind::kBoolean) return reader.integer() != 0 ? "true" : "false";
  if (kind == JsonKind::kInteger) return std::to_string(reader.integer());
  if (kind == JsonKind::kOtherNumber) return "~" + std::string(reader.text());
  if (kind == JsonKind::kText) return '"' + std::string(reader.text()) + '"';
  std::string text(1, kind == JsonKind::kList ? '[' : '{');
  reader.enter();
  while (reader.next()) {
    if (text.size() > 1) text += ',';
    if (kind == JsonKind::kObject) text += std::string(reader.key()) + ":";
    text += dump(reader);
  }
  return text + (kind == JsonKind::kList ? ']' : '}');
}

/// What a text says, however its bytes come.
std::string said(const std::string& text) {
  JsonReader reader(text);
  std::string whole = dump(reader);
  reader.finish();
  for (const std::size_t bytes : {1U, 2U, 3U, 7U}) {
    Pieces pieces(text, bytes);
    JsonReader again(pieces);
    EXPECT_EQ(dump(again), whole) << bytes;
    again.finish();
  }
  return whole;
}

void expect_bad(const std::string& text, std::initializer_list<std::string> words) {
  test::expect_error(ErrorKind::kBadInput, words, [&] {
    JsonReader reader(text);
    dump(reader);
    reader.finish();
  });
  // Whoever asks for nothing hears of it all the same.
  test::expect_error(ErrorKind::kBadInput, words, [&] { JsonReader(text).finish(); });
  for (const std::size_t bytes : {1U, 2U, 3U}) {
    test::expect_error(ErrorKind::kBadInput, words, [&] {
      Pieces pieces(text, bytes);
      JsonReader reader(pieces);
      reader.finish();
    });
  }
}

TEST(JsonReader, ReadsEveryKindOfValue) {
  EXPECT_EQ(said(R"( {"a": [1, -2, {"b": null}], "c": true, "d": "x\ty", "": {}, "e": []}  )"),
            "{a:[1,-2,{b:null}],c:true,d:\"x\ty\",:{},e:[]}");
  EXPECT_EQ(said("5"), "5");
  EXPECT_EQ(said("\xef\xbb\xbf[false]"), "[false]");
  EXPECT_EQ(said(R"(["\u00e9\ud83d\ude00\/", "é"])"), "[\"é😀/\",\"é\"]");
  EXPECT_EQ(said(R"("\u0000")").size(), 3U);
}

TEST(JsonReader, TellsIntegersOfOtherNumbers) {
  EXPECT_EQ(said("[9223372036854775807, -9223372036854775808, -0, 0]"),
            "[9223372036854775807,-9223372036854775808,0,0]");
  EXPECT_EQ(said("[9223372036854775808, 1.0, 1e2, -0.5E-3, 1e-999, 0.0e999]"),
            "[~9223372036854775808,~1.0,~1e2,~-0.5E-3,~1e-999,~0.0e999]");
  const std::string tiny = "0." + std::string(400, '0') + "1";
  EXPECT_EQ(said(tiny), "~" + tiny);
  EXPECT_EQ(said(tiny + "e500"), "~" + tiny + "e500");
  for (const std::string& number :
       {std::string("01"), std::string("+1"), std::string("1."), std::string(".5"),
        std::string("-"), std::string("1e"), std::string("0x1"), std::string("NaN"),
        std::string("Infinity"), std::string("1e999"), std::string("1e99999999999999999999"),
        std::string("1_0"), std::string(400, '9'), tiny + "e900"}) {
    expect_bad("[" + number + "]", {"is not valid JSON"});
  }
}

TEST(JsonReader, RefusesWhatIsNoJson) {
  for (const char* const text :
       {"",           " ",         "{",         "[",           "[1",
        "[1,]",       "[,1]",      "[1 2]",     "{\"a\"}",     "{\"a\":}",
        "{\"a\":1,}", "{a:1}",     "{1:1}",     "{\"a\" 1}",   "{\"a\":1 \"b\":2}",
        "[1}",        "{\"a\":1]", "1 1",       "nul",         "tru",
        "fals",       "nulll",     "'a'",       "\"a",         "\"\n\"",
        "\"\x1f\"",   "\"\\x\"",   "\"\\u12\"", "\"\\u12g4\"", "\"\\",
        "// a\n1",    "]",         "\xef\xbb",  "\xef\xbb\xbf"}) {
    expect_bad(text, {"is not valid JSON"});
  }
  expect_bad(std::string("[]\0", 3), {"is not valid JSON", "offset 2"});
}

TEST(JsonReader, RefusesTextsThatAreNoUnicode) {
  for (const char* const text :
       {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\\ud800", "\\udc00",
        "\\ud800\\u0041", "\\ud800x", "\xc3\\u0041\xa9"}) {
    expect_bad("[\"" + std::string(text) + "\"]", {"is not valid JSON"});
    expect_bad("{\"" + std::string(text) + "\": 1}", {"is not valid JSON"});
  }
}

TEST(JsonReader, NamesTheWayToWhatIsWrong) {
  expect_bad(R"({"a": 1, "layers": [{}, {"shape": [4, 5, x]}]})",
             {"offset 41", "is not valid JSON at layers[1].shape[2]"});
  expect_bad(R"({"model.embed.weight": {"a b": 01}})",
             {"is not valid JSON at ['model.embed.weight']['a b']"});
  const std::string text = R"({"layers": [1, {"shape": "x"}], "b": 2})";
  JsonReader reader(text);
  EXPECT_EQ(reader.path(), "");
  reader.enter();
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.path(), "layers");
  reader.enter();
  ASSERT_TRUE(reader.next() && reader.next());
  EXPECT_EQ(reader.path(), "layers[1]");
  reader.enter();
  ASSERT_TRUE(reader.next());
  test::expect_error(ErrorKind::kBadInput, {"layers[1].shape is a text, expected a list"},
                     [&] { reader.require(JsonKind::kList); });
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.path(), "b");
  EXPECT_EQ(reader.key(), "b");
}

TEST(JsonReader, PassesOverWhatNobodyAsksFor) {
  const std::string text = R"({"a": {"x": [[1], {"y": "]}"}]}, "b": [2, [3, [4]], 5], "c": 6})";
  JsonReader reader(text);
  reader.enter();
  std::vector<std::string> seen;
  while (reader.next()) {
    seen.emplace_back(reader.key());
    if (reader.key() != "b") continue;
    reader.enter();
    while (reader.next()) {
    }
  }
  reader.finish();
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(JsonReader, BoundsDepth) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  JsonReader(nested(kMaxJsonDepth)).finish();
  expect_bad(nested(kMaxJsonDepth + 1), {"nested too deeply"});
  expect_bad(std::string(1'000'000, '['), {"nested too deeply"});
  JsonReader(nested(3), {.max_depth = 3}).finish();
  test::expect_error(ErrorKind::kBadInput, {"nested too deeply"},
                     [&] { JsonReader(nested(4), {.max_depth = 3}).finish(); });
}

TEST(JsonReader, BoundsWhatComesWithoutAValue) {
  for (const char filler : {' ', 'x', '1'}) {
    Pieces pieces((filler == 'x' ? "\"" : "") + std::string(2 * kMaxJsonTokenBytes, filler),
                  1 << 20);
    JsonReader reader(pieces);
    test::expect_error(ErrorKind::kBadInput, {"more than 16777216 bytes without a value"},
                       [&] { reader.finish(); });
  }
}

TEST(JsonReader, CountsFromWhereItsTextBegins) {
  test::expect_error(ErrorKind::kBadInput, {"offset 9", "is not valid JSON"},
                     [] { JsonReader("{x", {.offset = 8}).finish(); });
}

TEST(JsonDocument, TellsWhetherTwoAreTheSame) {
  const std::vector<std::string> texts{"1",
                                       "2",
                                       "-1",
                                       "18446744073709551615",
                                       "18446744073709551614",
                                       "true",
                                       "false",
                                       R"("1")",
                                       R"("")",
                                       "[]",
                                       "{}",
                                       "[1]",
                                       "[1,2]",
                                       "[[1],2]",
                                       "[[1,2]]",
                                       R"({"a":1})",
                                       R"({"b":1})",
                                       R"({"a":1,"b":2})",
                                       R"({"b":2,"a":1})",
                                       R"({"a":[1],"b":{}})",
                                       R"({"a":[1],"b":[]})"};
  for (const std::string& a : texts) {
    for (const std::string& b : texts) {
      const auto one = JsonDocument::parse("[ " + a + " ]");
      const auto other = JsonDocument::parse("[" + b + "]");
      ASSERT_TRUE(one && other);
      EXPECT_EQ(is_same_json(*one->value().begin(), *other->value().begin()), a == b) << a << b;
      EXPECT_EQ(one->value().is_same(other->value()), a == b) << a << b;
      EXPECT_FALSE(is_same_json(*one->value().begin(), std::nullopt)) << a;
    }
  }
  const auto null = JsonDocument::parse("null");
  EXPECT_TRUE(is_same_json(std::nullopt, null->value()));
  EXPECT_TRUE(is_same_json(null->value(), std::nullopt));
  EXPECT_TRUE(is_same_json(std::nullopt, std::nullopt));
}

TEST(JsonDocument, HasUnsignedIntegers) {
  const auto of = [](const char* text) {
    return JsonDocument::parse(text)->value().unsigned_integer();
  };
  EXPECT_EQ(of("0"), 0U);
  EXPECT_EQ(of("18446744073709551615"), ~std::uint64_t{0});
  for (const char* text : {"-1", "18446744073709551616", "1.5", "1e3", "true", R"("1")", "null"}) {
    EXPECT_EQ(of(text), std::nullopt) << text;
  }
}

TEST(JsonDocument, FindsWhatAnObjectHas) {
  const auto document = JsonDocument::parse(R"({"a": [1, {"b": "c"}], "d": 1.5, "a": true})");
  ASSERT_TRUE(document);
  const JsonValue value = document->value();
  EXPECT_EQ(value.size(), 3U);
  EXPECT_EQ(value.find("a")->boolean(), true) << "the last one counts";
  EXPECT_EQ(value.find("d")->kind(), JsonKind::kOtherNumber);
  EXPECT_FALSE(value.find("b"));
  EXPECT_FALSE(value.find("d")->find("b"));
  EXPECT_EQ(value["a"].boolean(), true);
  EXPECT_TRUE(value["d"]["b"]["c"].is_null());
  EXPECT_EQ(value["b"].count(), 0U);
  EXPECT_TRUE(JsonDocument().value().is_null());
  EXPECT_FALSE(JsonDocument::parse("{"));
  EXPECT_FALSE(JsonDocument::parse("{} x"));
  EXPECT_TRUE(JsonDocument::parse(R"({"a": [1]})", 2));
  EXPECT_FALSE(JsonDocument::parse(R"({"a": [1]})", 1));
}

}  // namespace
}  // namespace reshardfs
