// SPDX-License-Identifier: Apache-2.0
#include "base/json/json_writer.h"

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

TEST(JsonWriter, QuotesEveryCharacter) {
  std::string all;
  for (char c = 0; c < 127; ++c) all += c;
  all += "\x7f\u00e9\u2028\uffff\U0001f600\U0010ffff";
  EXPECT_EQ(json_quoted(all), nlohmann::json(all).dump());
  EXPECT_EQ(json_quoted(all, JsonText::kAscii), nlohmann::json(all).dump(-1, ' ', true));
  test::expect_error(ErrorKind::kUnsupported, {"not UTF-8"}, [] { json_quoted("\xff"); });
}

TEST(JsonWriter, ReplacesWhatIsNoCharacter) {
  const std::vector<std::string> bytes{"a",    "\x80", "\xbf", "\xc1", "\xc3", "\xe0", "\xe2",
                                       "\xed", "\xa0", "\xf0", "\x90", "\xf4", "\xf5", "\xff"};
  for (const std::string& a : bytes) {
    for (const std::string& b : bytes) {
      for (const std::string& c : bytes) {
        for (const std::string& d : bytes) {
          const std::string text = a + b + c + d;
          ASSERT_EQ(
              json_quoted(text, JsonText::kReplaced),
              nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
        }
      }
    }
  }
}

}  // namespace
}  // namespace reshardfs
