// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_values.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/torch/pickle_globals.h"
#include "pickle_samples.h"
#include "support/errors.h"

namespace reshardfs::torch_values_tests {
namespace {

using test::expect_error;
namespace p = test::pickled;
using namespace std::string_literals;
using Views = TorchValues::Views;

/// A value alone in a pickle, whose storages "0" (24 bytes) and "1" (none) lie from 100 on.
struct Value {
  explicit Value(const std::string& opcodes, Views views = Views::kAny)
      : tree(p::pickle(opcodes), pickle::kSavedRules), values(tree, storage_of, views) {}

  static ByteRange storage_of(std::string_view key) {
    if (key == "0") return {100, 24};
    if (key == "1") return {124, 0};
    throw Error(ErrorKind::kBadInput, "no such storage");
  }
  TorchTensor tensor() const { return values.tensor(tree.root()); }
  bool is_tensor() const { return values.is_tensor(tree.root()); }

  PickleTree tree;
  TorchValues values;
};

const std::string kStorage = p::storage("FloatStorage", "0", 6);
const p::Placed kMatrix{0, {2, 3}, {3, 1}};
const std::string kPlain = p::v2_tensor(kStorage, kMatrix);
const std::string kParameter = p::torch_util("_rebuild_parameter");
const std::string kWithState = p::torch_util("_rebuild_parameter_with_state");
const std::string kHooks = p::ordered_dict();

void expect_matrix(const std::string& opcodes) {
  const Value value(opcodes);
  EXPECT_TRUE(value.is_tensor());
  const TorchTensor tensor = value.tensor();
  EXPECT_EQ(tensor.name, "");
  EXPECT_EQ(tensor.dtype, DType::kFloat32);
  EXPECT_EQ(tensor.shape, (Shape{2, 3}));
  EXPECT_EQ(tensor.strides, (Shape{3, 1}));
  EXPECT_EQ(tensor.first, 0);
  EXPECT_EQ(tensor.storage, ByteRange(100, 24));
}

void expect_no_tensor(const std::string& opcodes, const std::string& words,
                      ErrorKind kind = ErrorKind::kBadInput) {
  SCOPED_TRACE(words);
  const Value value(opcodes);
  expect_error(kind, {words}, [&] { value.tensor(); });
}

std::string of_type(const std::string& function, const std::string& type,
                    const std::string& arguments, const std::string& state = "}") {
  return p::reduce(p::global("torch._tensor", "_rebuild_from_type_v2"),
                   p::tuple({p::torch_util(function), type, arguments, state}));
}

TEST(TorchValues, ReadsEveryFormOfAPlainTensor) {
  expect_matrix(kPlain);
  expect_matrix(p::v2_tensor(kStorage, kMatrix, {p::kNone}));
  expect_matrix(p::v2_tensor(kStorage, kMatrix, {"}"}));
  expect_matrix(
      p::reduce(p::torch_util("_rebuild_tensor"),
                p::tuple({kStorage, p::number(0), p::numbers({2, 3}), p::numbers({3, 1})})));
  expect_matrix(p::reduce(kParameter, p::tuple({kPlain, p::kTrue, kHooks})));
  expect_matrix(p::reduce(kWithState,
                          p::tuple({kPlain, p::kTrue, kHooks, p::named({{"tag", p::number(1)}})})));
  for (const auto& [module, name] : {std::pair{"torch", "Tensor"},
                                     {"torch._tensor", "Tensor"},
                                     {"torch.nn.parameter", "Parameter"},
                                     {"torch.nn.parameter", "Buffer"}}) {
    expect_matrix(of_type("_rebuild_tensor_v2", p::global(module, name),
                          p::v2_arguments(kStorage, kMatrix), p::named({{"tag", p::number(1)}})));
  }
  const std::string parameter = p::global("torch.nn.parameter", "Parameter");
  expect_matrix(of_type("_rebuild_parameter", parameter, p::tuple({kPlain, p::kTrue, kHooks})));
}

TEST(TorchValues, ReadsUntypedStorages) {
  const auto third = [](const std::string& storage, const std::string& type,
                        const p::Placed& placed, const p::Values& more = {}) {
    p::Values arguments{
        storage,   p::number(placed.first), p::numbers(placed.shape), p::numbers(placed.strides),
        p::kFalse, p::ordered_dict(),       p::global("torch", type)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return p::reduce(p::torch_util("_rebuild_tensor_v3"), p::tuple(arguments));
  };
  const std::string untyped = p::storage("UntypedStorage", "0", 24);
  const TorchTensor tensor = Value(third(untyped, "uint16", {2, {5, 2}, {2, 1}})).tensor();
  EXPECT_EQ(tensor.dtype, DType::kUInt16);
  EXPECT_EQ(tensor.shape, (Shape{5, 2}));
  EXPECT_EQ(tensor.first, 2);
  EXPECT_EQ(Value(third(untyped, "float8_e4m3fn", {0, {24}, {1}}, {p::kNone})).tensor().dtype,
            DType::kFloat8E4M3);
  EXPECT_EQ(Value(third(kStorage, "float32", kMatrix)).tensor().dtype, DType::kFloat32);
  expect_no_tensor(third(untyped, "uint16", {3, {5, 2}, {2, 1}}), "beyond its storage");
  expect_no_tensor(third(kStorage, "int32", kMatrix), "its storage is of another type");
  expect_no_tensor(third(untyped, "complex64", kMatrix), "torch.complex64",
                   ErrorKind::kUnsupported);
  expect_no_tensor(third(untyped, "Size", kMatrix), "its type is no type of torch");
  expect_no_tensor(third(p::storage("UntypedStorage", "0", 12), "uint16", {0, {1}, {1}}),
                   "should have 12 bytes, but the file has 24 bytes");
  expect_no_tensor(p::v2_tensor(untyped, kMatrix), "its storage has no type");
}

TEST(TorchValues, KnowsATensorThatItRefuses) {
  for (const std::string name : {"_rebuild_sparse_tensor", "_rebuild_qtensor",
                                 "_rebuild_meta_tensor_no_storage", "_rebuild_tensor_v2"}) {
    const Value value(p::reduce(p::torch_util(name), p::tuple({"N", "N"})));
    EXPECT_TRUE(value.is_tensor()) << name;
    expect_error(ErrorKind::kUnsupported, {"torch._utils." + name, "2 arguments"},
                 [&] { value.tensor(); });
  }
  for (const std::string& other :
       {"N"s, "]"s, p::reduce(p::global("torch", "Size"), p::tuple({p::numbers({2})})),
        p::reduce(p::torch_util("_flatten"), p::kEmptyTuple),
        p::reduce(p::global("mylib", "_rebuild_tensor_v2"), p::kEmptyTuple), p::torch_util("x")}) {
    EXPECT_FALSE(Value(other).is_tensor());
  }
  expect_no_tensor("]", "it is a list");
  expect_no_tensor("N", "it is None");
}

TEST(TorchValues, RefusesOtherClasses) {
  const std::string arguments = p::v2_arguments(kStorage, kMatrix);
  expect_no_tensor(of_type("_rebuild_tensor_v2", p::global("mylib", "Quantized"), arguments),
                   "'mylib.Quantized', whose elements only that class knows",
                   ErrorKind::kUnsupported);
  expect_no_tensor(of_type("_rebuild_wrapper_subclass", p::global("torch", "Tensor"), arguments),
                   "only that class knows", ErrorKind::kUnsupported);
  const std::string from_type = p::global("torch._tensor", "_rebuild_from_type_v2");
  expect_no_tensor(p::reduce(from_type, p::tuple({"N", "N"})), "too few arguments");
  expect_no_tensor(p::reduce(from_type, p::tuple({"N", "N", ")"})), "its class is not stated");
  expect_no_tensor(of_type("_rebuild_parameter", p::global("torch.nn.parameter", "Parameter"),
                           p::tuple({kPlain})),
                   "a parameter of something else");
  expect_no_tensor(
      of_type("_rebuild_parameter", p::global("torch.nn.parameter", "Parameter"),
              p::tuple({of_type("_rebuild_tensor_v2", p::global("torch", "Tensor"), arguments),
                        p::kTrue, kHooks})),
      "a parameter of something else");
}

TEST(TorchValues, RefusesHooksMetadataAndStates) {
  const std::string hooks = p::ordered_dict({{p::number(1), "N"}});
  const auto second = [](const std::string& given, const p::Values& more = {}) {
    p::Values all{kStorage, p::number(0), p::numbers({2, 3}), p::numbers({3, 1}), p::kFalse, given};
    all.insert(all.end(), more.begin(), more.end());
    return p::reduce(p::torch_util("_rebuild_tensor_v2"), p::tuple(all));
  };
  expect_matrix(second(p::kNone));
  expect_no_tensor(second(hooks), "it has hooks");
  expect_no_tensor(second("]"), "it has hooks");
  expect_no_tensor(p::reduce(kParameter, p::tuple({kPlain, p::kTrue, hooks})), "it has hooks");
  expect_no_tensor(p::reduce(kWithState, p::tuple({kPlain, p::kTrue, hooks, "}"})), "it has hooks");
  expect_no_tensor(of_type("_rebuild_parameter", p::global("torch.nn.parameter", "Parameter"),
                           p::tuple({kPlain, p::kTrue, hooks})),
                   "it has hooks");
  for (const std::string flag : {"conj", "neg"}) {
    expect_no_tensor(p::v2_tensor(kStorage, kMatrix, {p::named({{flag, p::kTrue}})}),
                     "it has metadata", ErrorKind::kUnsupported);
  }
  expect_no_tensor(p::v2_tensor(kStorage, kMatrix, {"]"}), "it has metadata",
                   ErrorKind::kUnsupported);
  expect_no_tensor(p::v2_tensor(kStorage, kMatrix, {"}", "}"}), "of 8 arguments",
                   ErrorKind::kUnsupported);
  expect_no_tensor(p::build(kPlain, p::named({{"a", "N"}})), "it has a state");
}

TEST(TorchValues, RefusesParametersOfOtherForms) {
  expect_no_tensor(p::reduce(kParameter, p::tuple({kPlain, p::kTrue})), "of 2 arguments");
  expect_no_tensor(p::reduce(kWithState, p::tuple({kPlain, p::kTrue, kHooks})), "of 3 arguments");
  const std::string inner = p::reduce(kParameter, p::tuple({kPlain, p::kTrue, kHooks}));
  for (const std::string& outer :
       {p::reduce(kParameter, p::tuple({inner, p::kTrue, kHooks})),
        p::reduce(kWithState, p::tuple({inner, p::kTrue, kHooks, "}"}))}) {
    expect_no_tensor(outer, "a parameter of a parameter");
  }
  expect_no_tensor(p::reduce(kParameter, p::tuple({"N", p::kTrue, kHooks})), "it is None");
}

TEST(TorchValues, RefusesStoragesThatDoNotFit) {
  const auto of = [](const std::string& storage) { return p::v2_tensor(storage, {0, {1}, {1}}); };
  expect_no_tensor(of(p::storage("FloatStorage", "0", 7)),
                   "should have 7 elements, but the file has 24 bytes");
  expect_no_tensor(of(p::storage("FloatStorage", "0", (1LL << 61))), "should have 2305843009");
  expect_no_tensor(of(p::storage("FloatStorage", "7", 6)), "no such storage");
  expect_no_tensor(of(p::storage("ComplexFloatStorage", "0", 3)), "a torch.ComplexFloatStorage",
                   ErrorKind::kUnsupported);
  expect_no_tensor(of(p::storage("FloatStorage", "0", -1)), "the size of its storage");
  EXPECT_EQ(Value(of(p::storage("DoubleStorage", "0", 3))).tensor().dtype, DType::kFloat64);
}

TEST(TorchValues, KeepsTensorsInTheirStorages) {
  const auto at = [](const p::Placed& placed) { return p::v2_tensor(kStorage, placed); };
  EXPECT_NO_THROW(Value(at({3, {3}, {1}})).tensor());
  EXPECT_NO_THROW(Value(at({6, {0}, {1}})).tensor());
  EXPECT_NO_THROW(Value(at({0, {0, 1000}, {1000, 1}})).tensor());
  EXPECT_NO_THROW(Value(at({5, {}, {}})).tensor());
  expect_no_tensor(at({4, {3}, {1}}), "beyond its storage");
  expect_no_tensor(at({6, {}, {}}), "beyond its storage");
  expect_no_tensor(at({7, {0}, {1}}), "beyond its storage");
  expect_no_tensor(at({0, {2, 3}, {4, 1}}), "beyond its storage");
  expect_no_tensor(at({0, {1LL << 40, 1LL << 40}, {1LL << 40, 1}}), "beyond its storage");
  expect_no_tensor(at({0, {2}, {3, 1}}), "its strides do not fit its size");
  expect_no_tensor(at({-1, {2}, {1}}), "its offset should be a number from 0");
  expect_no_tensor(at({0, {-2}, {1}}), "its size should be a number from 0");
  expect_no_tensor(at({0, {2}, {-1}}), "its strides should be a number from 0");
  expect_no_tensor(at({0, p::Numbers(65, 1), p::Numbers(65, 1)}), "at most 64 numbers");
  EXPECT_NO_THROW(Value(at({0, p::Numbers(64, 1), p::Numbers(64, 1)})).tensor());
}

TEST(TorchValues, TakesExpandedViewsIfAsked) {
  const std::string expanded = p::v2_tensor(kStorage, {0, {1000, 6}, {0, 1}});
  EXPECT_EQ(Value(expanded, Views::kAny).tensor().shape, (Shape{1000, 6}));
  expect_error(ErrorKind::kBadInput, {"more elements than its storage"},
               [&] { Value(expanded, Views::kInStorage).tensor(); });
  EXPECT_NO_THROW(Value(kPlain, Views::kInStorage).tensor());
  EXPECT_NO_THROW(Value(p::v2_tensor(kStorage, {0, {1LL << 58}, {0}})).tensor());
  expect_no_tensor(p::v2_tensor(kStorage, {0, {1LL << 58, 2}, {0, 0}}), "too many elements");
  expect_no_tensor(p::v2_tensor(kStorage, {0, {1LL << 40, 1LL << 40}, {0, 0}}),
                   "too many elements");
}

TEST(TorchStorageIds, StateClassKeyAndCount) {
  const auto id_of = [](const std::string& opcodes) {
    const PickleTree tree(p::pickle(opcodes), pickle::kSavedRules);
    const TorchStorageId id = storage_id(tree, tree.root());
    return to_string(id.storage_class) + " " + std::string(id.key) + " " + std::to_string(id.count);
  };
  EXPECT_EQ(id_of(p::storage("IntStorage", "12", 5)), "torch.IntStorage 12 5");
  EXPECT_EQ(id_of(p::storage("IntStorage", "12", 0, {p::kNone})), "torch.IntStorage 12 0");
  const std::string view = p::tuple({p::text("1"), p::number(0), p::number(1)});
  expect_error(ErrorKind::kUnsupported, {"a part of another one"},
               [&] { id_of(p::storage("IntStorage", "12", 5, {view})); });
  for (const std::string& other :
       {"N"s, p::tuple({}) + "Q", p::storage("IntStorage", "1", 5, {p::kNone, p::kNone}),
        p::tuple({p::text("module"), "N", "N", "N", "N"}) + "Q"}) {
    expect_error(ErrorKind::kBadInput, {"its storage is not stated"}, [&] { id_of(other); });
  }
  for (const std::string key : {"", "1x", "../1", "-1"}) {
    expect_error(ErrorKind::kBadInput, {"its key is no number"},
                 [&] { id_of(p::storage("IntStorage", key, 5)); });
  }
}

TEST(TorchStorageIds, TellTheWidthOfAnElement) {
  const std::map<std::string_view, std::int64_t> widths{
      {"DoubleStorage", 8},       {"FloatStorage", 4},         {"HalfStorage", 2},
      {"BFloat16Storage", 2},     {"LongStorage", 8},          {"IntStorage", 4},
      {"ShortStorage", 2},        {"CharStorage", 1},          {"ByteStorage", 1},
      {"BoolStorage", 1},         {"QInt32Storage", 4},        {"QInt8Storage", 1},
      {"ComplexFloatStorage", 8}, {"ComplexDoubleStorage", 16}};
  for (const auto& [name, width] : widths) {
    EXPECT_EQ(storage_width({"torch", name}), width) << name;
  }
  expect_error(ErrorKind::kUnsupported, {"mylib.Storage"}, [] {
    storage_width({"mylib", "Storage"});
  });
}

}  // namespace
}  // namespace reshardfs::torch_values_tests
