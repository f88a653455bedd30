// SPDX-License-Identifier: Apache-2.0
/// What PickleTree takes where all values are: pickles of torch.save.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_tree.h"
#include "pickle_samples.h"
#include "support/errors.h"

namespace reshardfs::saved_pickle_tests {
namespace {

using test::expect_error;
using test::little;
namespace p = test::pickled;
using namespace std::string_literals;

PickleTree saved(const std::string& value) {
  return PickleTree(p::pickle(value), pickle::kSavedRules);
}

/// @param words of the error.
void expect_refused_saved(const std::string& value, const std::string& words) {
  SCOPED_TRACE(words);
  expect_error(ErrorKind::kBadInput, {"the pickle is refused", words}, [&] { saved(value); });
}

/// The strict rules take nothing of it.
void expect_strict(const std::string& value, const std::string& words) {
  SCOPED_TRACE(words);
  for (const PickleRules* rules : {&pickle::kTableRules, &pickle::kArchiveRules}) {
    expect_error(ErrorKind::kBadInput, {"the pickle is refused", words},
                 [&] { PickleTree(p::pickle(value), *rules); });
  }
}

/// What a value alone is, and that it is taken where the strict rules refuse it.
PickleKind kind_of_saved(const std::string& value, const std::string& words) {
  expect_strict(value, words);
  const PickleTree tree = saved("]" + value + "a");
  std::vector<PickleKind> kinds;
  tree.for_each(tree.root(), [&](PickleValue element) {
    kinds.push_back(element.kind());
    return true;
  });
  EXPECT_EQ(kinds.size(), 1U);
  return kinds.empty() ? PickleKind::kUnset : kinds.front();
}

std::string long4(const std::string& bytes) {
  return "\x8b" + little(bytes.size(), 4) + bytes;
}

std::string counted8(char opcode, const std::string& bytes) {
  return std::string(1, opcode) + little(bytes.size(), 8) + bytes;
}

TEST(SavedPickle, TakesNumbersOfAnyLength) {
  const std::string ten = "\x8a\x0a"s + std::string(10, '\x11');
  EXPECT_EQ(kind_of_saved(ten, "a number of 10 bytes"), PickleKind::kHugeInt);
  const std::string most = "\x8a\xff"s + std::string(255, '\x11');
  EXPECT_EQ(kind_of_saved(most, "a number of 255 bytes"), PickleKind::kHugeInt);
  EXPECT_EQ(kind_of_saved(long4(std::string(300, '\x11')), "0x8b (LONG4)"), PickleKind::kHugeInt);
  EXPECT_EQ(kind_of_saved(long4(""), "LONG4"), PickleKind::kHugeInt);
}

TEST(SavedPickle, TakesTextsOfPython2) {
  for (const std::string& opcodes : {"U\x03"s + "abc", "T" + little(3, 4) + "abc"}) {
    const PickleTree tree = saved(opcodes);
    EXPECT_EQ(tree.text(tree.root()), "abc");
  }
  expect_strict(
      "U\x01"
      "a",
      "SHORT_BINSTRING");
  expect_strict("T" + little(1, 4) + "a", "(BINSTRING)");
}

TEST(SavedPickle, TakesBytesOfAnyLength) {
  EXPECT_EQ(kind_of_saved(counted8('\x8e', "abc"), "BINBYTES8"), PickleKind::kObject);
  EXPECT_EQ(kind_of_saved(counted8('\x96', "abc"), "BYTEARRAY8"), PickleKind::kObject);
}

TEST(SavedPickle, TakesSets) {
  EXPECT_EQ(kind_of_saved("\x8f", "EMPTY_SET"), PickleKind::kObject);
  EXPECT_EQ(kind_of_saved("\x8f(K\x01K\x02\x90", "EMPTY_SET"), PickleKind::kObject);
  EXPECT_EQ(kind_of_saved("(K\x01K\x02\x91", "FROZENSET"), PickleKind::kObject);
  const PickleTree tree = saved("\x8f(K\x01K\x02\x90");
  EXPECT_EQ(tree.maker(tree.root()), std::nullopt);
  EXPECT_EQ(tree.tuple(tree.arguments(tree.root())).size(), 0U);
  expect_refused_saved("(K\x01\x90", "lacks its values");
  expect_refused_saved("K\x01\x90", "lacks its mark");
  expect_refused_saved("K\x01\x91", "lacks its mark");
}

TEST(SavedPickle, TakesValuesFromTheStackAndDoublesThem) {
  expect_strict(
      "K\x01K\x02"
      "0",
      "POP");
  expect_strict(
      "K\x01(K\x02K\x03"
      "1",
      "POP_MARK");
  expect_strict(
      "K\x01"
      "2\x86",
      "DUP");
  PickleTree tree = saved(
      "K\x01K\x02"
      "0");
  EXPECT_EQ(tree.integer(tree.root()), 1);
  tree = saved(
      "K\x01(K\x02K\x03"
      "1");
  EXPECT_EQ(tree.integer(tree.root()), 1);
  tree = saved("]2\x86");
  const auto twice = tree.tuple(tree.root());
  ASSERT_EQ(twice.size(), 2U);
  EXPECT_EQ(twice[0], twice[1]);
  expect_refused_saved("0", "lacks its values");
  expect_refused_saved("1", "lacks its mark");
  expect_refused_saved("2", "lacks its values");
  expect_refused_saved("K\x01(0", "lacks its values");
  expect_refused_saved("K\x01(2", "lacks its values");
}

TEST(SavedPickle, TakesObjectsOfProtocol1) {
  const std::string object = "(" + p::global("mylib", "Thing") + "K\x07K\x08o";
  expect_strict(object, "mylib.Thing");
  const PickleTree tree = saved(object);
  EXPECT_EQ(tree.maker(tree.root()), (PickleGlobal{"mylib", "Thing"}));
  const auto arguments = tree.tuple(tree.arguments(tree.root()));
  ASSERT_EQ(arguments.size(), 2U);
  EXPECT_EQ(tree.integer(arguments[1]), 8);
  const PickleTree none = saved("(" + p::global("mylib", "Thing") + "o");
  EXPECT_TRUE(none.tuple(none.arguments(none.root())).empty());
  expect_refused_saved("(o", "lacks its values");
  expect_refused_saved("No", "lacks its mark");
}

TEST(SavedPickle, TakesObjectsWithNamedArguments) {
  const std::string object = p::global("mylib", "Thing") + p::numbers({5}) + "}\x92";
  expect_strict(p::global("torch", "float32") + ")}\x92", "NEWOBJ_EX");
  const PickleTree tree = saved(object);
  EXPECT_EQ(tree.maker(tree.root()), (PickleGlobal{"mylib", "Thing"}));
  EXPECT_EQ(tree.integer(tree.tuple(tree.arguments(tree.root()))[0]), 5);
  expect_refused_saved(")}\x92", "lacks its values");
}

TEST(SavedPickle, KeepsWhatIsAddedToObjects) {
  const std::string type = p::global("mylib", "MyDict");
  PickleTree tree = saved(p::new_object(type) + p::set_items({{p::text("a"), p::number(1)}}) +
                          p::text("b") + p::number(2) + "s");
  PickleValue items = tree.items(tree.root());
  ASSERT_TRUE(items.is(PickleKind::kDict));
  EXPECT_EQ(tree.count(items), 2U);
  EXPECT_EQ(tree.integer(tree.find(items, "b")), 2);
  EXPECT_EQ(tree.count(tree.root()), 0U);  // it is no dictionary itself
  tree = saved(p::new_object(type) + "(K\x01K\x02" + "eK\x03" + "a");
  items = tree.items(tree.root());
  ASSERT_TRUE(items.is(PickleKind::kList));
  EXPECT_EQ(tree.count(items), 3U);
  tree = saved(p::new_object(type));
  EXPECT_TRUE(tree.items(tree.root()).is(PickleKind::kUnset));
  EXPECT_TRUE(tree.items(PickleValue(PickleKind::kNone, 0)).is(PickleKind::kUnset));
  expect_refused_saved(p::new_object(type) + "K\x01" + "aK\x01K\x02s", "a list and a dictionary");
  expect_strict(p::ordered_dict() + "K\x01" + "a", "values are added to a dictionary");
  expect_refused_saved("NK\x01" + "a"s, "values are added to None");
}

TEST(SavedPickle, MakesDictionariesOfPairs) {
  const std::string pairs =
      p::list({p::tuple({p::text("a"), p::number(1)}), p::list({p::text("b"), p::number(2)})});
  const std::string dict = p::reduce(p::global("collections", "OrderedDict"), p::tuple({pairs}));
  expect_strict(dict, "an OrderedDict with arguments");
  PickleTree tree = saved(dict + p::set_items({{p::text("c"), p::number(3)}}));
  ASSERT_TRUE(tree.root().is(PickleKind::kDict));
  EXPECT_EQ(tree.count(tree.root()), 3U);
  EXPECT_EQ(tree.integer(tree.find(tree.root(), "b")), 2);
  EXPECT_EQ(tree.integer(tree.find(tree.root(), "c")), 3);
  tree = saved(p::reduce(p::global("collections", "OrderedDict"), p::tuple({"]"})));
  EXPECT_TRUE(tree.root().is(PickleKind::kDict));
  for (const std::string& other : {p::list({p::numbers({1, 2, 3})}), p::list({"N"}), "N"s}) {
    tree = saved(p::reduce(p::global("collections", "OrderedDict"), p::tuple({other})));
    EXPECT_EQ(tree.maker(tree.root()), (PickleGlobal{"collections", "OrderedDict"}));
  }
}

TEST(SavedPickle, TakesWhatIsCalledWhateverItIs) {
  const std::string got =
      p::reduce(p::global("__builtin__", "getattr"),
                p::tuple({p::global("torch", "float32"), p::text("ProcessGroupState")}));
  const PickleTree tree = saved(p::build(p::new_object(got, p::numbers({3})), p::named({})));
  EXPECT_TRUE(tree.root().is(PickleKind::kObject));
  EXPECT_EQ(tree.maker(tree.root()), std::nullopt);
  EXPECT_EQ(tree.integer(tree.tuple(tree.arguments(tree.root()))[0]), 3);
  EXPECT_TRUE(tree.state(tree.root()).is(PickleKind::kDict));
  const PickleTree listed = saved(p::reduce(p::global("mylib", "make"), p::list({"N"})));
  EXPECT_TRUE(listed.arguments(listed.root()).is(PickleKind::kList));
  EXPECT_EQ(listed.maker(listed.root()), std::nullopt);
  expect_strict("NNR", "it would call None");
  expect_strict(p::reduce(p::global("torch", "float32"), "]"), "should be a tuple");
}

TEST(SavedPickle, TakesStatesOfAnything) {
  PickleTree tree = saved(p::build("]", p::named({{"a", "N"}})));
  EXPECT_TRUE(tree.root().is(PickleKind::kList));
  tree = saved(p::build(p::build(p::ordered_dict(), "}"), "}"));
  EXPECT_TRUE(tree.root().is(PickleKind::kDict));
  tree = saved(p::build(p::build(p::new_object(p::global("mylib", "A")), "K\x01"), "K\x02"));
  EXPECT_EQ(tree.integer(tree.state(tree.root())), 2);  // as in Python, where the last one counts
  const std::string object = p::new_object(p::global("argparse", "Namespace"));
  const std::string before = p::named({{"a", p::number(1)}, {"b", p::number(2)}});
  const PickleTree both =
      saved(p::build(p::build(object, before), p::named({{"a", p::number(3)}})));
  EXPECT_EQ(both.integer(both.find(both.state(both.root()), "a")), 3);
  EXPECT_EQ(both.integer(both.find(both.state(both.root()), "b")), 2);
  expect_strict(p::build("]", "}"), "a list gets a state");
  expect_strict(p::build(p::build(p::ordered_dict(), "}"), "}"), "its state twice");
}

TEST(SavedPickle, TakesNumbersOfTheMemoThatNoWriterGives) {
  const std::string far = "r" + little(0xfffffff0, 4);
  const std::string value = "](K\x05" + far + "0j" + little(0xfffffff0, 4) + "e";
  const PickleTree tree = saved(value);
  std::vector<std::int64_t> all;
  tree.for_each(tree.root(), [&](PickleValue element) {
    all.push_back(tree.integer(element).value_or(-1));
    return true;
  });
  EXPECT_EQ(all, (std::vector<std::int64_t>{5}));
  expect_strict("K\x05" + far, "the memo's number 4294967280");
  expect_refused_saved("j" + little(0xfffffff0, 4), "the memo has no number");
  expect_refused_saved(far, "lacks its values");
}

TEST(SavedPickle, TellsWhereItEnds) {
  const std::string first = p::pickle(p::named({{"a", p::number(1)}}));
  const PickleTree tree(first + p::pickle("N") + "more", pickle::kSavedRules);
  EXPECT_EQ(tree.consumed(), first.size());
  EXPECT_EQ(tree.size(), first.size() + 4 + 4);
  EXPECT_EQ(tree.integer(tree.find(tree.root(), "a")), 1);
  // A frame may be of the pickle that follows, so that it says nothing of the end.
  const std::string framed = "\x80\x04\x95" + little(2, 8) + "N.";
  EXPECT_EQ(PickleTree(framed, pickle::kSavedRules).consumed(), framed.size());
}

TEST(SavedPickle, TellsAllThatStandsForSomethingElse) {
  const std::string value =
      p::list({p::storage("FloatStorage", "0", 1), p::tuple({p::text("module"), "N"}) + "Q",
               p::float_tensor("1", {2})});
  const PickleTree tree = saved(value);
  std::vector<std::string> kinds;
  tree.for_each_persistent([&](PickleValue id) {
    EXPECT_TRUE(id.is(PickleKind::kPersistent));
    const auto entries = tree.tuple(tree.arguments(id));
    kinds.emplace_back(tree.text(entries[0]).value_or("") == "module"
                           ? "module"
                           : tree.text(entries[2]).value_or("?"));
  });
  EXPECT_EQ(kinds, (std::vector<std::string>{"0", "module", "1"}));
  EXPECT_EQ(tree.objects(), 4U);  // the three ids and the tensor
}

TEST(SavedPickle, TellsEveryTruncation) {
  const std::string whole = p::pickle(
      p::list({p::ordered_dict({{p::text("a"), p::number(1)}}), p::float_tensor("0", {2}),
               "\x8f(K\x01\x90", counted8('\x96', "abc"), long4("abc"), "U\x02zz", "(K\x01\x91",
               p::build(p::new_object(p::global("mylib", "A")), p::named({{"b", "N"}})),
               "\x8a\x0a" + std::string(10, 'l'), "J" + little(7, 4), "G12345678",
               p::global("mylib", "B") + ")}\x92", "N\x94", "Nq\x01", "Nr" + little(2, 4)}));
  EXPECT_EQ(PickleTree(whole, pickle::kSavedRules).consumed(), whole.size());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    EXPECT_THROW(PickleTree(whole.substr(0, size), pickle::kSavedRules), PickleCutOff);
  }
  try {  // what is wrong, and not cut off, is another error
    saved("\x97");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const PickleCutOff& error) {
    ADD_FAILURE() << error.what();
  } catch (const Error& error) {
    EXPECT_EQ(error.offset(), 2U);
  }
}

TEST(SavedPickle, LimitsDepthAndNodesAllTheSame) {
  expect_refused_saved("N" + std::string(65, '\x85'), "in more than 64 others");
  std::string calls = "N";
  for (int i = 0; i < 40; ++i) calls = p::reduce(p::global("m", "f"), calls + "\x85");
  expect_refused_saved(calls, "in more than 64 others");
  std::string many = "(";
  for (int i = 0; i < 300'000; ++i) many += "\x8f";
  expect_refused_saved(many + "t", "objects in");
}

/// Each call would copy them.
TEST(SavedPickle, MakesNoManyDictionariesOfTheSamePairs) {
  const auto with = [](int calls) {
    std::string value = p::global("collections", "OrderedDict") +
                        "q\x01"
                        "0](" +
                        p::numbers({1, 2}) + "q\x02";
    for (int i = 1; i < 5'000; ++i) value += "h\x02";
    value +=
        "e\x85q\x03"
        "0(";
    for (int i = 0; i < calls; ++i) value += "h\x01h\x03R";
    return value + "t";
  };
  const PickleTree tree = saved(with(3));
  ASSERT_EQ(tree.tuple(tree.root()).size(), 3U);
  EXPECT_EQ(tree.count(tree.tuple(tree.root())[2]), 1U) << "all have one key";
  expect_refused_saved(with(1000), "again and again");
}

}  // namespace
}  // namespace reshardfs::saved_pickle_tests
