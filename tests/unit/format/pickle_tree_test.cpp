// SPDX-License-Identifier: Apache-2.0
#include "format/torch/pickle_tree.h"

#include <string>

#include <gtest/gtest.h>

#include "format/torch/pickle_globals.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::expect_error;
using namespace std::string_literals;

const std::string kProto = "\x80\x04";

std::string text(const std::string& value) {
  return "\x8c" + std::string(1, static_cast<char>(value.size())) + value;
}

PickleTree tree_of(const std::string& opcodes, const PickleRules& rules = pickle::kTableRules) {
  return PickleTree(kProto + opcodes + ".", rules);
}

/// @param offset of the opcode, behind the protocol.
void expect_refused(const std::string& opcodes, const std::string& words, std::size_t offset,
                    const PickleRules& rules = pickle::kTableRules) {
  SCOPED_TRACE(words);
  expect_error(ErrorKind::kBadInput,
               {"the pickle is refused", words, "offset " + std::to_string(offset + 2)},
               [&] { tree_of(opcodes, rules); });
}

TEST(PickleTree, ReadsConstants) {
  const PickleTree tree =
      tree_of("(K\x07M\x01\x02J\xff\xff\xff\xffN\x88\x89G12345678"s + text("name") +
              "C\x02"
              "ab" +
              "t");
  const auto values = tree.tuple(tree.root());
  ASSERT_EQ(values.size(), 9U);
  EXPECT_EQ(tree.integer(values[0]), 7);
  EXPECT_EQ(tree.integer(values[1]), 0x201);
  EXPECT_EQ(tree.integer(values[2]), -1);
  EXPECT_TRUE(values[3].is(PickleKind::kNone));
  EXPECT_TRUE(values[4].is(PickleKind::kBool));
  EXPECT_EQ(tree.integer(values[4]), std::nullopt);  // a boolean is no size
  EXPECT_NE(values[4], values[5]);
  EXPECT_EQ(tree.integer(values[6]), std::nullopt);  // nor is a float
  EXPECT_EQ(tree.text(values[7]), "name");
  EXPECT_EQ(tree.text(values[8]), std::nullopt);  // bytes are no text
}

TEST(PickleTree, ReadsNumbersOfAnyLength) {
  const PickleTree tree = tree_of(
      "(\x8a\x00\x8a\x01\xff\x8a\x03\x00\x00\x01\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
      "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00t"s);
  const auto values = tree.tuple(tree.root());
  ASSERT_EQ(values.size(), 6U);
  EXPECT_EQ(tree.integer(values[0]), 0);
  EXPECT_EQ(tree.integer(values[1]), -1);
  EXPECT_EQ(tree.integer(values[2]), 65536);
  EXPECT_EQ(tree.integer(values[3]), INT64_MAX);
  EXPECT_EQ(tree.integer(values[4]), INT64_MIN);
  EXPECT_TRUE(values[5].is(PickleKind::kHugeInt));
  EXPECT_EQ(tree.integer(values[5]), std::nullopt);
}

TEST(PickleTree, ReadsListsThatGrowInParts) {
  const PickleTree tree = tree_of(
      "](K\x01K\x02"
      "e]aK\x03"
      "a(e");
  std::vector<PickleKind> kinds;
  tree.for_each(tree.root(), [&](PickleValue value) {
    kinds.push_back(value.kind());
    return true;
  });
  EXPECT_EQ(kinds,
            (std::vector{PickleKind::kInt, PickleKind::kInt, PickleKind::kList, PickleKind::kInt}));
  EXPECT_EQ(tree.count(tree.root()), 4U);
}

TEST(PickleTree, ReadsDictionariesAndFindsTheLastOfTwoKeys) {
  const PickleTree tree =
      tree_of("}(" + text("a") + "K\x01" + text("b") + "K\x02u" + text("a") + "K\x03s");
  EXPECT_EQ(tree.integer(tree.find(tree.root(), "a")), 3);
  EXPECT_EQ(tree.integer(tree.find(tree.root(), "b")), 2);
  EXPECT_TRUE(tree.find(tree.root(), "c").is(PickleKind::kUnset));
  EXPECT_EQ(tree.count(tree.root()), 2U);
}

TEST(PickleTree, KeepsWhatWouldBeCalled) {
  const PickleTree tree = tree_of("ctorch\nSize\n(K\x02K\x03t\x85R");
  EXPECT_EQ(tree.maker(tree.root()), (PickleGlobal{"torch", "Size"}));
  const auto arguments = tree.tuple(tree.arguments(tree.root()));
  ASSERT_EQ(arguments.size(), 1U);
  EXPECT_EQ(tree.tuple(arguments[0]).size(), 2U);
}

TEST(PickleTree, KeepsTheStateOfAnObject) {
  const PickleTree tree = tree_of(text("torch.distributed.checkpoint.metadata") + text("Metadata") +
                                  "\x93)\x81}" + text("size") + "K\x05sb");
  EXPECT_EQ(tree.maker(tree.root())->name, "Metadata");
  EXPECT_EQ(tree.integer(tree.find(tree.state(tree.root()), "size")), 5);
}

TEST(PickleTree, TakesAnOrderedDictForADictionary) {
  const PickleTree tree = tree_of("ccollections\nOrderedDict\n)R(" + text("a") + "K\x01u}b");
  EXPECT_EQ(tree.integer(tree.find(tree.root(), "a")), 1);
}

TEST(PickleTree, SharesWhatTheMemoHas) {
  const PickleTree tree = tree_of(
      "(]\x94h\x00K\x01"
      "aq\x05j\x05\x00\x00\x00r\x09\x00\x00\x00t"s);
  const auto values = tree.tuple(tree.root());
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[1], values[2]);
  EXPECT_EQ(tree.count(values[0]), 1U);
}

TEST(PickleTree, ReadsPersistentIdsOnlyWhereTheyBelong) {
  const PickleTree tree = tree_of(text("id") + "Q", pickle::kArchiveRules);
  EXPECT_EQ(tree.text(tree.arguments(tree.root())), "id");
  expect_refused(text("id") + "Q", "0x51", 4);
}

TEST(PickleTree, RefusesOtherOpcodes) {
  for (const char opcode :
       "012FILPSTUVdgilop\x82\x83\x84\x8b\x8e\x8f\x90\x91\x92\x96\x97\x98\x99"s) {
    expect_refused("K\x01" + std::string(1, opcode) + "rest\nrest\n", "is not allowed", 2);
  }
  expect_refused("\x92", "NEWOBJ_EX", 0);
}

TEST(PickleTree, RefusesOtherGlobals) {
  for (const char* const name :
       {"posix\nsystem", "os\nsystem", "builtins\neval", "torch\nload", "torch\nfloat",
        "torch\nfloat32.__class__", "torch.distributed.checkpoint\nsave",
        "torch.distributed.checkpoint.metadata\nos.system", "torch.distributed.checkpointx.y\nz",
        "pathlib\nPath", "builtins\nprint"}) {
    expect_refused("c"s + name + "\n", "which no checkpoint needs", 0);
  }
  expect_refused(text("posix") + text("system") + "\x93", "'posix.system'", 15);
  for (const char* const name : {"torch\nSize", "torch._utils\n_rebuild_sparse_tensor",
                                 "torch\nx.Storage", "builtins\ngetattr"}) {
    expect_refused("c"s + name + "\n", "which no checkpoint needs", 0, pickle::kArchiveRules);
  }
}

TEST(PickleTree, RefusesCallsOfComputedValues) {
  const std::string size = "ctorch\nSize\n";
  expect_refused(size + ")R)R", "would call an object", size.size() + 3);
  expect_refused("K\x01)R", "would call a number", 3);
  expect_refused(size + "K\x01R", "should be a tuple", size.size() + 2);
  expect_refused("ccollections\nOrderedDict\nK\x01\x85R", "OrderedDict with arguments", 28);
}

TEST(PickleTree, TakesGetattrOfAClassAlone) {
  const std::string getattr = "cbuiltins\ngetattr\n";
  const PickleTree tree = tree_of(getattr + "ctorch\nSize\n" + text("x") + "\x86R");
  EXPECT_EQ(tree.maker(tree.root())->name, "getattr");
  expect_refused(getattr + "ctorch\nSize\n)R" + text("x") + "\x86R", "getattr of something", 36);
  expect_refused(getattr + ")R", "getattr of something", 19);
}

TEST(PickleTree, RefusesASecondState) {
  expect_refused("ctorch\nSize\n)R}b}b", "its state twice", 17);
  expect_refused("]}b", "a list gets a state", 2);
}

TEST(PickleTree, RefusesWhatLacksItsValues) {
  for (const std::string opcodes : {"R", "\x81", "b", "\x85", "\x86", "\x87", "a", "s", "\x94",
                                    "\x93", "]a", "}K\x01s", "K\x01(\x94", "(e", "K\x01(\x85"}) {
    expect_refused(opcodes, "lacks its values", opcodes.size() - 1);
  }
  for (const std::string opcodes : {"t", "e", "u"}) expect_refused(opcodes, "lacks its mark", 0);
  expect_refused("}(K\x01u", "lacks its value", 4);
  expect_refused(
      "}K\x01"
      "a",
      "are added to a dictionary", 3);
  expect_refused("](K\x01K\x02u", "are added to a list", 6);
  expect_refused("h\x05", "memo has no number 5", 0);
  expect_refused("K\x01q\x02h\x01", "memo has no number 1", 4);
  expect_refused("K\x01r\xff\xff\xff\xff", "the memo's number 4294967295", 2);
  expect_refused("\x93", "lacks its values", 0);
  expect_refused("K\x01K\x02\x93", "should be text", 4);
  expect_refused("K\x01K\x02", "should leave one value", 4);
}

TEST(PickleTree, RefusesLengthsBeyondTheEnd) {
  expect_refused(
      "\x8c\x09"
      "abc",
      "a text of 9 bytes, of which 4 are left", 0);
  expect_refused("\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"s, "a text of 9223372036854775807 bytes", 0);
  expect_refused("\x95\xff\x00\x00\x00\x00\x00\x00\x00"s, "a frame reaches beyond the end", 0);
  expect_refused("\x8a\xff", "a number of 255 bytes", 0);
  expect_refused("J\x01", "ends within an opcode", 0);
  expect_refused("ctorch\nSize", "ends within an opcode", 0);
}

TEST(PickleTree, RefusesEveryTruncation) {
  const std::string whole = kProto + "}(" + text("a") + "ctorch\nSize\n(K\x01K\x02t\x85R" +
                            text("b") +
                            "]\x94(h\x00\x8a\x02\x01\x02"
                            "eu."s;
  EXPECT_NO_THROW(PickleTree(whole, pickle::kTableRules));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    expect_error(ErrorKind::kBadInput, {"the pickle is refused"},
                 [&] { PickleTree(whole.substr(0, size), pickle::kTableRules); });
  }
}

TEST(PickleTree, RefusesOtherProtocols) {
  for (const std::string bytes : {"(lp0\n.", "\x80\x01N.", "\x80\x06N."}) {
    expect_error(ErrorKind::kBadInput, {"protocol"},
                 [&] { PickleTree(bytes, pickle::kTableRules); });
  }
}

TEST(PickleTree, LimitsDepth) {
  const auto nested = [](std::size_t depth) { return "N" + std::string(depth, '\x85'); };
  EXPECT_NO_THROW(tree_of(nested(64)));
  expect_refused(nested(65), "in more than 64 others", 65);
  expect_refused(std::string(70, ']') + std::string(69, 'a'), "in more than 64 others", 133);
  expect_refused(std::string(65, '('), "marks in more than 64", 64);
}

TEST(PickleTree, LimitsNodes) {
  std::string many = "(";
  for (int i = 0; i < 300'000; ++i) many += "]";
  expect_error(ErrorKind::kBadInput, {"more than", "objects in"}, [&] { tree_of(many + "t"); });
}

TEST(PickleTree, ReadsAListInItself) {
  const PickleTree tree = tree_of(
      "]\x94h\x00"
      "a"s);
  EXPECT_EQ(tree.count(tree.root()), 1U);
}

const std::string kUnneeded = text("all_local_plans");
const std::string kIndexClass = "ctorch.distributed.checkpoint.metadata\nMetadataIndex\n";
const std::string kOneAndTwo = "](K\1K\2e";

TEST(PickleTree, DropsAListThatNobodyNeeds) {
  // Two batches, with objects, states, dictionaries, tuples and lists; then another key.
  const std::string item =
      "]" + kIndexClass + ")\x81}(" + text("fqn") + text("w") + text("at") + "K\1K\2\x86ubaK\5\x85";
  const PickleTree tree =
      tree_of("}(" + text("first") + kOneAndTwo + kUnneeded + "]\x94(" + item + item + "e(" + item +
              item + "e" + text("last") + kOneAndTwo + "u");
  std::size_t elements = 0;
  const auto count = [&](PickleValue /*value*/) { return ++elements > 0; };
  tree.for_each(tree.find(tree.root(), "all_local_plans"), count);
  EXPECT_EQ(elements, 0U);
  tree.for_each(tree.find(tree.root(), "first"), count);
  EXPECT_EQ(elements, 2U);
  tree.for_each(tree.find(tree.root(), "last"), count);
  EXPECT_EQ(elements, 4U);
}

TEST(PickleTree, WhatIsDroppedIsCheckedAllTheSame) {
  const std::string begin = "}(" + kUnneeded + "](";
  expect_refused(begin + "cos\nsystem\n)Re" + text("x") + "Nu", "'os.system'", begin.size());
  expect_refused(begin + "0", "POP", begin.size());
  expect_refused(begin + "K\1K\2R", "no class", begin.size() + 4);
  const std::string other = "}(" + text("a") + "]\x94" + kUnneeded + "](" + "h" + '\0' + "K\1";
  expect_refused(other + "a", "from another one", other.size());
}

TEST(PickleTree, WhatHasTheNameElsewhereIsKept) {
  const auto elements = [](const PickleTree& tree, PickleValue dict) {
    std::size_t count = 0;
    tree.for_each(tree.find(dict, "all_local_plans"),
                  [&](PickleValue /*v*/) { return ++count > 0; });
    return count;
  };
  const PickleTree inner = tree_of("}(" + text("names") + "}(" + kUnneeded + kOneAndTwo + "uu");
  EXPECT_EQ(elements(inner, inner.find(inner.root(), "names")), 2U);
  const PickleTree archive = tree_of("}(" + kUnneeded + kOneAndTwo + "u", pickle::kArchiveRules);
  EXPECT_EQ(elements(archive, archive.root()), 2U);
}

TEST(PickleGlobals, KnowsTypes) {
  EXPECT_EQ(pickle::dtype_from_torch("bfloat16"), DType::kBFloat16);
  EXPECT_EQ(pickle::dtype_from_torch("complex64"), std::nullopt);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat8E8M0, DType::kComplex64}) {
    EXPECT_EQ(pickle::dtype_from_text(pickle::text_of(dtype)), dtype);
  }
  for (const DType dtype : {DType::kInt4, DType::kFloat4E2M1, DType::kString}) {
    EXPECT_EQ(pickle::text_of(dtype), "");
  }
  EXPECT_EQ(pickle::dtype_of_storage("LongStorage"), DType::kInt64);
  EXPECT_EQ(pickle::dtype_of_storage(""), std::nullopt);
  EXPECT_TRUE(pickle::is_torch_type({"torch", "float8_e8m0fnu"}));
  EXPECT_FALSE(pickle::is_torch_type({"torch", "floating"}));
  EXPECT_EQ(pickle::torch_name(DType::kFloat8E4M3), "float8_e4m3fn");
}

}  // namespace
}  // namespace reshardfs
