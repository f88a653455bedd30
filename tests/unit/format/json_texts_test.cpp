// SPDX-License-Identifier: Apache-2.0
#include "format/json/json_texts.h"

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"

namespace reshardfs::json_texts_tests {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

void expect_bad(const std::string& json, std::initializer_list<std::string> words) {
  test::expect_error(ErrorKind::kBadInput, words, [&] { read_json_texts(json, "map"); });
}

TEST(JsonTexts, AreReadInTheirOrder) {
  EXPECT_EQ(read_json_texts(R"({"b": "1", "a": "", "\u00e9": "2"})"),
            (Texts{{"b", "1"}, {"a", ""}, {"é", "2"}}));
  EXPECT_EQ(read_json_texts("{}"), Texts{});
}

TEST(JsonTexts, AreThoseOfTheInnerObjectIfThereIsOne) {
  const Texts expected{{"a", "1"}};
  EXPECT_EQ(read_json_texts(R"({"a": "1"})", "map"), expected);
  EXPECT_EQ(read_json_texts(R"({"map": {"a": "1"}})", "map"), expected);
  EXPECT_EQ(read_json_texts(R"({"x": [{"map": "2"}], "a": "2", "map": {"a": "1"}, "y": "3",
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
  EXPECT_EQ(read_json_texts(R"({"x": )" + many + R"(, "map": {"a": "1"}})", "map"),
            (Texts{{"a", "1"}}));
}

TEST(JsonTexts, AreLimited) {
  std::string json = "{";
  for (std::size_t i = 0; i <= kMaxJsonTexts; ++i) json += R"("a":"",)";
  expect_bad(json, {"more than 2000000 members"});
}

}  // namespace
}  // namespace reshardfs::json_texts_tests
