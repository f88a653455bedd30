// SPDX-License-Identifier: Apache-2.0
#include "base/toml/toml_keys.h"

#include <string>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "support/errors.h"

namespace reshardfs {
namespace {

std::string key_of(std::size_t parts) {
  std::string key = "a";
  for (std::size_t i = 1; i < parts; ++i) key += ".a";
  return key;
}

void expect_refused(const std::string& text, const std::string& line) {
  test::expect_error(ErrorKind::kBadInput, {"line " + line + ":", "more than 16 parts"},
                     [&] { refuse_deep_toml_keys(text); });
}

TEST(TomlKeys, MayHaveSixteenParts) {
  EXPECT_NO_THROW(refuse_deep_toml_keys(key_of(16) + " = 1\n[" + key_of(16) + "]\n"));
  expect_refused("\n\n" + key_of(17) + " = 1", "3");
  expect_refused("[" + key_of(17) + "]", "1");
  expect_refused("[[" + key_of(500'000) + "]]", "1");
  expect_refused("x = {b = 1, " + key_of(17) + " = 1}", "1");
  expect_refused("a . \"b.c\" . 'd' ." + key_of(14) + " = 1", "1");
}

TEST(TomlKeys, AreNoDotsInTextsCommentsAndNumbers) {
  const std::string deep = key_of(100);
  for (const std::string& text :
       {"# " + deep, "x = \"" + deep + "\"", "x = '" + deep + "'", "x = \"\\\"" + deep + "\"",
        "x = \"\"\"\n" + deep + "\n\\\"\"\"" + deep + "\"\"\"", "x = '''\n" + deep + "'''",
        "x = ['" + deep + "', \"" + deep + "\"] # " + deep}) {
    EXPECT_NO_THROW(refuse_deep_toml_keys(text)) << text;
  }
  std::string numbers = "x = [";
  for (int i = 0; i < 100; ++i) numbers += "1.5, ";
  EXPECT_NO_THROW(refuse_deep_toml_keys(numbers + "]"));
}

TEST(TomlKeys, AreFoundBehindTextsOfEveryKind) {
  const std::string deep = "\n" + key_of(17) + " = 1";
  for (const std::string text :
       {"x = \"\"", "x = ''", "x = \"\\\\\"", "x = \"'\"", "x = '\"'", "x = '\\'", "# \" '",
        "x = \"\"\"\"\"\"", "x = \"\"\"a\"\"\"\"\"", "x = '''a''''", "x = \"\"\"\\\"\"\"\""}) {
    expect_refused(text + deep, "2");
  }
  expect_refused("x = \"\"\"\n\n\"\"\"" + deep, "4");
  EXPECT_NO_THROW(refuse_deep_toml_keys("x = \"\"\"" + deep));
  EXPECT_NO_THROW(refuse_deep_toml_keys(""));
}

}  // namespace
}  // namespace reshardfs
