// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_writer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reshardfs/error.h"

#include "support/errors.h"

namespace reshardfs {
namespace {

std::string written(const JsonStyle& style) {
  JsonWriter json(style);
  json.open_object();
  json.key("a");
  json.numbers(std::vector<int>{1, -2});
  json.key("b");
  json.open_object();
  json.close_object();
  json.key("c");
  json.open_list();
  json.null();
  json.boolean(true);
  json.open_list();
  json.close_list();
  json.text("é\n\x01");
  json.close_list();
  json.close_object();
  return json.take();
}

// The files that are shown have been written by nlohmann's library: they must not change.
TEST(JsonWriter, WritesAsOthersDo) {
  const auto json = nlohmann::ordered_json::parse(written({}));
  EXPECT_EQ(written({}), json.dump());
  EXPECT_EQ(written({",", ": ", 4}), json.dump(4));
  EXPECT_EQ(written({",", ":", 0, JsonText::kAscii}), json.dump(-1, ' ', true));
}

TEST(JsonWriter, HasItsOwnSeparators) {
  JsonWriter json({", ", ": "});
  json.open_object();
  json.key("a");
  json.number(1);
  json.key("b");
  json.numbers(std::vector<int>{2, 3});
  json.close_object();
  EXPECT_EQ(json.take(), R"({"a": 1, "b": [2, 3]})");
}

TEST(JsonWriter, WritesMembersAsOthersDo) {
  const auto written = [](const JsonStyle& style) {
    JsonWriter json(style);
    json.open_object();
    json.member("text", "a\xff");
    json.member("number", -5);
    json.member("most", ~std::uint64_t{0});
    json.member("boolean", true);
    json.member("real", 1.0);
    json.member("rank", Rank(3));
    json.objects("objects", std::vector<int>{1, 2}, [&](int i) { json.member("i", i); });
    json.objects("no objects", std::vector<int>{}, [](int) {});
    json.member_or_null("none", "");
    json.member_or_null("some", std::optional<std::uint8_t>(7));
    json.null_member("null");
    json.open_list("texts");
    json.texts(std::vector<std::string>{"c", "d"});
    json.texts(std::vector<std::string>{});
    json.close_list();
    json.texts("named texts", std::vector<std::string>{"e"});
    json.numbers("named numbers", std::vector<int>{});
    json.open_object("object");
    json.written_member("written", "[1]");
    json.close_object();
    json.close_object();
    return json.take();
  };
  const nlohmann::ordered_json json{{"text", "a\xff"},
                                    {"number", -5},
                                    {"most", ~std::uint64_t{0}},
                                    {"boolean", true},
                                    {"real", 1.0},
                                    {"rank", 3},
                                    {"objects", {{{"i", 1}}, {{"i", 2}}}},
                                    {"no objects", nlohmann::json::array()},
                                    {"none", nullptr},
                                    {"some", 7},
                                    {"null", nullptr},
                                    {"texts", {{"c", "d"}, nlohmann::json::array()}},
                                    {"named texts", {"e"}},
                                    {"named numbers", nlohmann::json::array()},
                                    {"object", {{"written", {1}}}}};
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  EXPECT_EQ(written(kCompactJson), json.dump(-1, ' ', false, kReplace));
  nlohmann::ordered_json without = json;
  without["object"]["written"] = nullptr;  // what is written already is not indented
  std::string indented = written(kIndentedJson);
  indented.replace(indented.rfind("[1]"), 3, "null");
  EXPECT_EQ(indented, without.dump(2, ' ', false, kReplace));
}

TEST(JsonWriter, QuotesEveryCharacter) {
  std::string all;
  for (char c = 0; c < 127; ++c) all += c;
  all += "\x7f\u00e9\u2028\uffff\U0001f600\U0010ffff";
  EXPECT_EQ(json_quoted(all), nlohmann::json(all).dump());
  EXPECT_EQ(json_quoted(all, JsonText::kAscii), nlohmann::json(all).dump(-1, ' ', true));
  test::expect_error(ErrorKind::kUnsupported, {"not UTF-8"}, [] { json_quoted("\xff"); });
}

TEST(JsonWriter, ReplacesWhatIsNoCharacter) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  const std::vector<std::string> bytes{"a",    "\x80", "\xbf", "\xc1", "\xc3", "\xe0", "\xe2",
                                       "\xed", "\xa0", "\xf0", "\x90", "\xf4", "\xf5", "\xff"};
  for (const std::string& a : bytes) {
    for (const std::string& b : bytes) {
      for (const std::string& c : bytes) {
        for (const std::string& d : bytes) {
          const std::string text = a + b + c + d;
          const nlohmann::json json(text);
          ASSERT_EQ(json_quoted(text, JsonText::kReplaced), json.dump(-1, ' ', false, kReplace));
          ASSERT_EQ(json_quoted(text, JsonText::kAsciiReplaced),
                    json.dump(-1, ' ', true, kReplace));
        }
      }
    }
  }
}

}  // namespace
}  // namespace reshardfs
