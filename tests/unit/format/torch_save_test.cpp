// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_save.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "pickle_samples.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::torch_save_tests {
namespace {

using test::expect_error;
using test::MemorySource;
namespace p = test::pickled;
using namespace std::string_literals;
using Names = std::vector<std::string>;

const std::string kStored(24, 's');
const std::string kMatrix = p::float_tensor("0", {2, 3});

TorchSave read(const std::string& value) {
  const MemorySource source(p::zip_of(value, {{"0", kStored}}), "model.pt");
  return read_torch_save(TorchArchive(source));
}

Names names_of(const TorchSave& saved) {
  Names names;
  for (const TorchTensor& tensor : saved.tensors) names.push_back(tensor.name);
  return names;
}

/// "name: reason"
Names refused_of(const TorchSave& saved) {
  Names all;
  for (const RefusedTensor& tensor : saved.refused)
    all.push_back(tensor.name + ": " + tensor.reason);
  return all;
}

Names values_of(const TorchSave& saved) {
  Names all;
  for (const SavedValue& value : saved.beside.values) all.push_back(value.name + ": " + value.what);
  return all;
}

void expect_no_save(const std::string& value, const std::string& words,
                    ErrorKind kind = ErrorKind::kUnsupported) {
  SCOPED_TRACE(words);
  expect_error(kind, {"model.pt", words}, [&] { read(value); });
}

/// Opcodes that keep a value, and those that bring it again.
std::string kept(const std::string& value, int number) {
  return value + "q" + static_cast<char>(number);
}
std::string again(int number) {
  return "h"s + static_cast<char>(number);
}

TEST(TorchSave, NamesTensorsByTheirKeys) {
  const TorchSave saved =
      read(p::ordered_dict({{p::text("layers.0.weight"), kMatrix}, {p::text("bias"), kMatrix}}));
  EXPECT_EQ(names_of(saved), (Names{"layers.0.weight", "bias"}));
  EXPECT_EQ(saved.tensors[0].shape, (Shape{2, 3}));
  EXPECT_TRUE(saved.refused.empty());
  EXPECT_TRUE(saved.places.empty());
  EXPECT_TRUE(saved.beside.values.empty());
  EXPECT_TRUE(saved.beside.wrappers.empty());
}

TEST(TorchSave, NamesNestedTensorsByTheirPaths) {
  const std::string inner = p::named({{"w", kMatrix}});
  const TorchSave saved =
      read(p::named({{"model", p::ordered_dict({{p::text("a.b"), kMatrix}})},
                     {"list", p::list({kMatrix, p::kNone, p::tuple({inner, kMatrix})})}}));
  EXPECT_EQ(names_of(saved), (Names{"model.a.b", "list.0", "list.2.0.w", "list.2.1"}));
  EXPECT_EQ(values_of(saved), (Names{"list.1: None"}));
}

TEST(TorchSave, NamesWhatIsAtTheTopOfAListOrTuple) {
  EXPECT_EQ(names_of(read(p::list({kMatrix, p::kNone, kMatrix}))), (Names{"0", "2"}));
  EXPECT_EQ(names_of(read(p::tuple({p::kNone, kMatrix}))), (Names{"1"}));
}

TEST(TorchSave, NamesKeysOfOtherKindsAsPythonPrintsThem) {
  const TorchSave saved = read(p::dict({{p::number(-7), kMatrix},
                                        {p::number(INT64_MAX), kMatrix},
                                        {p::kTrue, kMatrix},
                                        {p::kFalse, kMatrix},
                                        {p::kNone, kMatrix},
                                        {p::numbers({1}), kMatrix},
                                        {p::global("torch", "int8"), kMatrix}}));
  EXPECT_EQ(names_of(saved), (Names{"-7", "9223372036854775807", "True", "False", "(None)",
                                    "(a tuple)", "(a class)"}));
}

TEST(TorchSave, ListsWhatIsNoTensor) {
  const std::string copied =
      p::reduce(p::global("copyreg", "_reconstructor"),
                p::tuple({p::global("mylib", "Config"), p::global("__builtin__", "object"), "N"}));
  const TorchSave saved =
      read(p::named({{"w", kMatrix},
                     {"epoch", p::number(3)},
                     {"lr", "G12345678"},
                     {"note", p::text("x")},
                     {"config", copied},
                     {"args", p::new_object(p::global("argparse", "Namespace"))},
                     {"seen", "\x8f(K\x01\x90"},
                     {"history", p::list({p::number(1), p::number(2)})},
                     {"nested", p::named({{"deep", p::named({{"x", p::kNone}})}})}}));
  EXPECT_EQ(names_of(saved), (Names{"w"}));
  EXPECT_EQ(values_of(saved),
            (Names{"epoch: a number", "lr: a float", "note: a text",
                   "config: an object of mylib.Config", "args: an object of argparse.Namespace",
                   "seen: an object", "history: a list", "nested: a dictionary"}));
}

TEST(TorchSave, FindsTensorsInClassesDerivedFromContainers) {
  const std::string type = p::global("mylib", "Bundle");
  const std::string dict =
      p::new_object(type) + p::set_items({{p::text("w"), kMatrix}, {p::text("n"), p::kNone}});
  const std::string list = p::new_object(type) + "(" + kMatrix + kMatrix + "e";
  const TorchSave saved = read(p::named({{"d", dict}, {"l", list}}));
  EXPECT_EQ(names_of(saved), (Names{"d.w", "l.0", "l.1"}));
  EXPECT_EQ(values_of(saved), (Names{"d.n: None"}));
  EXPECT_EQ(names_of(read(dict)), (Names{"w"}));
}

TEST(TorchSave, GivesALoneTensorAName) {
  const TorchSave saved = read(kMatrix);
  EXPECT_EQ(names_of(saved), (Names{kLoneTensor}));
  EXPECT_EQ(refused_of(read(p::v2_tensor(p::storage("FloatStorage", "0", 6), {7, {1}, {1}}))),
            (Names{"tensor: it reaches beyond its storage"}));
}

TEST(TorchSave, RefusesFilesWithoutTensors) {
  expect_no_save(p::named({{"a", p::number(1)}}), "has no tensor, but a dictionary");
  expect_no_save("N", "has no tensor, but None");
  expect_no_save("]", "has no tensor, but a list");
  const std::string module =
      p::build(p::new_object(p::global("mylib", "Net")), p::named({{"w", kMatrix}}));
  expect_no_save(module, "has no tensor, but an object of mylib.Net; load it with PyTorch");
}

TEST(TorchSave, TellsWhyATensorCannotBeShown) {
  const std::string sparse =
      p::reduce(p::torch_util("_rebuild_sparse_tensor"), p::tuple({"N", "N"}));
  const TorchSave saved = read(p::named({{"good", kMatrix},
                                         {"gone", p::float_tensor("7", {1})},
                                         {"sparse", sparse},
                                         {"\xff", kMatrix}}));
  EXPECT_EQ(names_of(saved), (Names{"good"}));
  const Names refused = refused_of(saved);
  ASSERT_EQ(refused.size(), 3U);
  EXPECT_NE(refused[0].find("gone: "), std::string::npos);
  EXPECT_NE(refused[0].find("no entry 'data/7'"), std::string::npos) << refused[0];
  EXPECT_NE(refused[1].find("sparse: it is made by 'torch._utils._rebuild_sparse_tensor'"),
            std::string::npos);
  EXPECT_EQ(refused[2], "\\xff: its name is not UTF-8");
}

TEST(TorchSave, RefusesTwoValuesOfOneName) {
  const TorchSave saved =
      read(p::named({{"z", kMatrix},
                     {"a.b", kMatrix},
                     {"a", p::named({{"b", kMatrix}, {"c", kMatrix}})},
                     {"bad", p::float_tensor("7", {1})}}) +
           p::set_items({{p::number(1), kMatrix}, {p::text("1"), p::float_tensor("7", {1})}}));
  EXPECT_EQ(names_of(saved), (Names{"z", "a.c"}));
  const Names refused = refused_of(saved);
  ASSERT_EQ(refused.size(), 3U);
  EXPECT_EQ(refused[0], "1: two values have this name");
  EXPECT_EQ(refused[1], "a.b: two values have this name");
  EXPECT_EQ(refused[2].substr(0, 5), "bad: ");
}

TEST(TorchSave, TellsTheUsualKeysOfAModel) {
  const std::string model = p::named({{"w", kMatrix}});
  const TorchSave saved = read(p::named({{"state_dict", model},
                                         {"epoch", p::number(1)},
                                         {"model", p::kNone},
                                         {"other", p::named({{"module", model}})},
                                         {"module", kMatrix},
                                         {"model_state_dict", model}}));
  EXPECT_EQ(saved.beside.wrappers, (Names{"state_dict", "model_state_dict"}));
}

TEST(TorchSave, NamesSharedValuesUnderEachKey) {
  const TorchSave saved = read(p::named({{"a", kept(p::named({{"w", kept(kMatrix, 2)}}), 1)},
                                         {"b", again(1)},
                                         {"c", p::list({again(2), again(1)})}}));
  EXPECT_EQ(names_of(saved), (Names{"a.w", "b.w", "c.0", "c.1.w"}));
}

TEST(TorchSave, RefusesValuesInThemselves) {
  expect_no_save("}q\x01(" + p::text("w") + kMatrix + p::text("me") + again(1) + "u",
                 "in themselves", ErrorKind::kBadInput);
  const std::string inner = p::named({{"outer", again(1)}, {"w", kMatrix}});
  expect_no_save("]q\x01(" + kMatrix + inner + "e", "in themselves", ErrorKind::kBadInput);
  // Without a tensor there is nothing to name.
  expect_no_save("]q\x01(" + again(1) + "e", "has no tensor, but a list");
}

TEST(TorchSave, RefusesMoreNamesThanItsValuesExplain) {
  std::string doubled = kept(p::list({kMatrix}), 1);
  for (int depth = 0; depth < 20; ++depth) {
    doubled = kept(p::list({doubled, again(depth + 1)}), depth + 2);
  }
  expect_no_save(doubled, "refer to each other so often that they have more than",
                 ErrorKind::kBadInput);
  std::string few = kept(p::list({kMatrix}), 1);
  for (int depth = 0; depth < 8; ++depth) few = kept(p::list({few, again(depth + 1)}), depth + 2);
  EXPECT_EQ(read(few).tensors.size(), 256U);
}

TEST(TorchSave, RefusesNamesWithoutEnd) {
  EXPECT_EQ(read(p::named({{std::string(4096, 'k'), kMatrix}})).tensors[0].name.size(), 4096U);
  expect_no_save(p::named({{std::string(4097, 'k'), kMatrix}}), "names of values that are too long",
                 ErrorKind::kBadInput);
  // Each name repeats the key.
  std::string shared = kept(p::named({{"t", kept(kMatrix, 1)}}), 2) + "(";
  for (int i = 0; i < 5000; ++i) shared += p::number(i) + "\x8f";
  expect_no_save(p::named({{std::string(4000, 'k'), shared + "u"}}), "too many of them",
                 ErrorKind::kBadInput);
}

TEST(TorchSave, ReadsValuesInManyOthers) {
  std::string deep = kMatrix;
  for (int depth = 0; depth < 60; ++depth) deep = p::list({deep});
  const TorchSave saved = read(deep);
  ASSERT_EQ(saved.tensors.size(), 1U);
  std::string name = "0";
  for (int depth = 1; depth < 60; ++depth) name += ".0";
  EXPECT_EQ(saved.tensors[0].name, name);
}

}  // namespace
}  // namespace reshardfs::torch_save_tests
