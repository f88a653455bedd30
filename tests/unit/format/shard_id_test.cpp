// SPDX-License-Identifier: Apache-2.0
#include "format/mindformers/shard_id.h"

#include <string>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

struct Written {
  const char* text;
  const char* name;
  std::uint64_t number;
};

TEST(ShardId, IsReadAsPythonWritesIt) {
  // What Python's repr((name, (number,))) gives.
  const Written all[] = {
      {"('a', (0,))", "a", 0},
      {"('decoder.layers.0.mlp.linear_fc1.weight', (1,))", "decoder.layers.0.mlp.linear_fc1.weight",
       1},
      {"('a, (3,))', (2,))", "a, (3,))", 2},
      {"(\"x', (1,)\", (3,))", "x', (1,)", 3},
      {"(\"it's\", (4,))", "it's", 4},
      {"('say \"x\"', (5,))", "say \"x\"", 5},
      {"('both \\' and \"', (6,))", "both ' and \"", 6},
      {"('back\\\\slash', (7,))", "back\\slash", 7},
      {"('tab\\tline\\nreturn\\r', (8,))", "tab\011line\012return\015", 8},
      {"('\\x01\\x7f', (9,))", "\001\177", 9},
      {"('\303\251', (10,))", "\303\251", 10},
      {"('\344\270\255\346\226\207', (11,))", "\344\270\255\346\226\207", 11},
      {"('\\u200b\\u2028', (12,))", "\342\200\213\342\200\250", 12},
      {"('\\U000e0001\360\237\230\200', (13,))", "\363\240\200\201\360\237\230\200", 13},
      {"(\"('a', (0,))\", (14,))", "('a', (0,))", 14},
  };
  for (const Written& written : all) {
    const auto id = parse_shard_id(written.text);
    ASSERT_TRUE(id) << written.text;
    EXPECT_EQ(id->name, written.name) << written.text;
    EXPECT_EQ(id->numbers, std::vector{written.number}) << written.text;
  }
}

TEST(ShardId, MayHaveSeveralNumbers) {
  const auto id = parse_shard_id("('w', (0, 12, 3))");
  ASSERT_TRUE(id);
  EXPECT_EQ(id->numbers, (std::vector<std::uint64_t>{0, 12, 3}));
  EXPECT_EQ(parse_shard_id("('w', (18446744073709551615,))")->numbers.front(), ~std::uint64_t{0});
}

TEST(ShardId, IsRefusedIfPythonWritesNoSuchText) {
  for (const char* const text : {"",
                                 "(",
                                 "()",
                                 "))",
                                 "('w', (0,)",
                                 "('w' (0,))",
                                 "'w', (0,)",
                                 "('w', (0))",
                                 "('w', ())",
                                 "('w', (0, ))",
                                 "('w', (0,1))",
                                 "('w', (0, 1,))",
                                 "('w', (-1,))",
                                 "('w', (+1,))",
                                 "('w', (01,))",
                                 "('w', (0x1,))",
                                 "('w', ( 0,))",
                                 "('w', (,))",
                                 "('w', (18446744073709551616,))",
                                 "(w, (0,))",
                                 "('w\", (0,))",
                                 "('', (0,))",
                                 "('a'b', (0,))",
                                 "('a\\', (0,))",
                                 "('a\\q', (0,))",
                                 "('a\\x1', (0,))",
                                 "('a\\xg0', (0,))",
                                 "('a\\x+1', (0,))",
                                 "('a\\ud800', (0,))",
                                 "('a\\U00110000', (0,))",
                                 "(\"w\", (0,))",
                                 "('it\\'s', (0,))",
                                 "(b'w', (0,))",
                                 "('w', (0,)) ",
                                 " ('w', (0,))",
                                 "('w', (0,), 1)"}) {
    EXPECT_FALSE(parse_shard_id(text)) << text;
  }
}

TEST(ShardId, IsWrittenAsPythonWritesIt) {
  EXPECT_EQ(shard_id_head("decoder.weight"), "('decoder.weight', (");
  EXPECT_EQ(shard_id_head("it's"), "(\"it's\", (");
  EXPECT_EQ(shard_id_head("say \"x\""), "('say \"x\"', (");
  EXPECT_EQ(shard_id_head("both ' and \""), "('both \\' and \"', (");
  EXPECT_EQ(shard_id_head("a\\b\tc\nd\re"), "('a\\\\b\\tc\\nd\\re', (");
  EXPECT_EQ(shard_id_head("\001\177"), "('\\x01\\x7f', (");
  EXPECT_EQ(shard_id_head("層é"), "('層é', (");
  // A space that does not break, a zero-width one, a private character, one of a later plane.
  EXPECT_EQ(shard_id_head("\u00a0\u200b\ue000\U000e0001"), "('\\xa0\\u200b\\ue000\\U000e0001', (");
}

TEST(ShardId, IsReadAsItIsWritten) {
  for (const std::string name : {"w", "a, (3,))", "it's \"x\" \\", "\t\n\r\001",
                                 "層\u00a0\U0001f600\U000e0001", "x', (1,)"}) {
    const auto id = parse_shard_id(shard_id_head(name) + "12" + std::string(kShardIdTail));
    ASSERT_TRUE(id) << name;
    EXPECT_EQ(*id, (ShardId{name, {12}}));
  }
}

TEST(ShardId, MayBeHostile) {
  const std::string digits(10'000, '9');
  EXPECT_FALSE(parse_shard_id("('w', (" + digits + ",))"));
  std::string many = "('w', (0";
  for (int i = 0; i < 100'000; ++i) many += ", 0";
  EXPECT_FALSE(parse_shard_id(many + "))"));
  std::string nested = "('";
  for (int i = 0; i < 100'000; ++i) nested += ", (";
  const auto id = parse_shard_id(nested + "', (0,))");
  ASSERT_TRUE(id);
  EXPECT_EQ(id->name.size(), 300'000U);
}

}  // namespace
}  // namespace reshardfs
