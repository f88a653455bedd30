// SPDX-License-Identifier: Apache-2.0
/// Keys that a pickle sets several times: the last value counts, as in Python.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_tree.h"
#include "format/torch/torch_save.h"
#include "pickle_samples.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::pickle_keys_tests {
namespace {

namespace p = test::pickled;
using namespace std::string_literals;
using Numbers = std::vector<std::int64_t>;

/// Of a dictionary with numbers as values, what Python's list(d.values()) gives.
Numbers values_of(const std::string& dict) {
  const PickleTree tree(p::pickle(dict), pickle::kSavedRules);
  Numbers values;
  tree.for_each_pair(tree.root(), [&](PickleValue, PickleValue value) {
    values.push_back(tree.integer(value).value_or(-1));
    return true;
  });
  EXPECT_EQ(tree.count(tree.root()), values.size());
  return values;
}

std::string set_item(const std::string& key, const std::string& value) {
  return key + value + "s";
}

std::string real(const std::string& big_endian) {
  return "G" + big_endian;
}

const std::string kOne = real("\x3f\xf0\0\0\0\0\0\0"s);
const std::string kHalf = real("\x3f\xe0\0\0\0\0\0\0"s);
const std::string kNotANumber = real("\x7f\xf8\0\0\0\0\0\0"s);

TEST(PickleKeys, TheLastValueIsInThePlaceOfTheFirst) {
  const std::string a = p::text("a");
  const std::string b = p::text("b");
  const auto number = [](std::int64_t value) { return p::number(value); };
  EXPECT_EQ(values_of(p::dict({{a, number(1)}, {b, number(2)}, {a, number(3)}})), (Numbers{3, 2}));
  EXPECT_EQ(values_of("}" + set_item(a, number(1)) + set_item(a, number(2))), (Numbers{2}));
  EXPECT_EQ(values_of(p::dict({{a, number(1)}}) + p::set_items({{b, number(2)}, {a, number(3)}})),
            (Numbers{3, 2}));
  EXPECT_EQ(values_of(p::ordered_dict({{a, number(1)}, {a, number(2)}})), (Numbers{2}));
  // As Python 2 writes an OrderedDict.
  const std::string pairs = p::list({p::list({a, number(1)}), p::list({a, number(2)})});
  EXPECT_EQ(values_of(p::reduce(p::global("collections", "OrderedDict"), p::tuple({pairs}))),
            (Numbers{2}));
}

TEST(PickleKeys, PartsMayBeFarFromEachOther) {
  // The dictionary is in the memo, and others are filled meanwhile.
  const std::string a = p::text("a");
  const std::string dict = "}q\x01" + set_item(a, p::number(1));
  const std::string other = p::dict({{a, p::number(7)}});
  const std::string again =
      "h\x01" + p::set_items({{a, p::number(2)}, {p::text("b"), p::number(3)}});
  const PickleTree tree(p::pickle(p::tuple({dict, other, again})), pickle::kSavedRules);
  const auto values = tree.tuple(tree.root());
  EXPECT_EQ(values[0], values[2]);
  EXPECT_EQ(tree.count(values[0]), 2U);
  EXPECT_EQ(tree.integer(tree.find(values[0], "a")), 2);
  EXPECT_EQ(tree.integer(tree.find(values[1], "a")), 7);
}

TEST(PickleKeys, ManyKeysAreComparedToo) {
  p::Pairs pairs;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 50; ++i) {
      pairs.emplace_back(p::text("k" + std::to_string(i)), p::number(100 * round + i));
    }
  }
  const Numbers values = values_of(p::dict(pairs));
  ASSERT_EQ(values.size(), 50U);
  EXPECT_EQ(values.front(), 100);
  EXPECT_EQ(values.back(), 149);
}

TEST(PickleKeys, AreEqualAsInPython) {
  const auto are_one = [](const std::string& a, const std::string& b) {
    return values_of(p::dict({{a, p::number(1)}, {b, p::number(2)}})) == Numbers{2};
  };
  const std::string bytes_a = "C\x01" + "a"s;
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{
           {p::number(1), "K\x01"},
           {p::number(1), p::kTrue},
           {kOne, p::number(1)},
           {kHalf, kHalf},
           {p::kNone, p::kNone},
           {bytes_a, bytes_a},
           {p::tuple({p::text("a"), p::number(1)}), p::tuple({p::text("a"), p::kTrue})}}) {
    EXPECT_TRUE(are_one(a, b)) << a << " and " << b;
    EXPECT_TRUE(are_one(b, a)) << b << " and " << a;
  }
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{
           {p::text("1"), p::number(1)},
           {p::text("a"), bytes_a},
           {kHalf, kOne},
           {kNotANumber, kNotANumber},
           {p::kNone, p::kFalse},
           {p::text("a"), p::text("A")},
           {p::tuple({p::text("a")}), p::text("a")},
           {p::new_object(p::global("m", "C")), p::new_object(p::global("m", "C"))}}) {
    EXPECT_FALSE(are_one(a, b)) << a << " and " << b;
  }
}

TEST(PickleKeys, TensorsThatAreReplacedAreNotShown) {
  const std::string w = p::text("w");
  const std::string stored(16, 's');
  const std::string first = p::float_tensor("0", {4});
  const std::string second = p::float_tensor("1", {4});
  const auto names_of = [&](const std::string& value) {
    const std::string bytes = p::zip_of(value, {{"0", stored}, {"1", stored}});
    const test::MemorySource source(bytes, "model.pt");
    std::vector<std::string> names;
    for (const TorchTensor& tensor : read_torch_save(TorchArchive(source)).tensors) {
      names.push_back(tensor.name);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const std::string rest = p::text("a") + second;
  EXPECT_EQ(names_of("}(" + w + first + rest + "u(" + w + "Nu"), (Names{"a"}));
  const std::string inner = p::named({{"x", first}});
  EXPECT_EQ(names_of(p::dict({{w, inner}, {w, second}})), (Names{"w"}));
  EXPECT_EQ(names_of(p::named({{"outer", p::dict({{w, first}, {w, inner}})}})),
            (Names{"outer.w.x"}));
}

TEST(PickleKeys, AStorageHasOneType) {
  const std::string stored(16, 's');
  const auto read = [&](const std::string& other, std::int64_t count) {
    const std::string value =
        p::named({{"a", p::float_tensor("0", {4})},
                  {"b", p::v2_tensor(p::storage(other, "0", count), {0, {count}, {1}})}});
    const std::string zip = p::zip_of(value, {{"0", stored}});
    const test::MemorySource source(zip, "model.pt");
    return read_torch_save(TorchArchive(source)).tensors.size();
  };
  EXPECT_EQ(read("FloatStorage", 4), 2U);
  test::expect_error(ErrorKind::kBadInput, {"model.pt", "'0'", "FloatStorage", "IntStorage"},
                     [&] { read("IntStorage", 4); });
  test::expect_error(ErrorKind::kBadInput, {"model.pt", "DoubleStorage"},
                     [&] { read("DoubleStorage", 2); });
}

}  // namespace
}  // namespace reshardfs::pickle_keys_tests
