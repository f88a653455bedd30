// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_values.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "format/torch/pickle_globals.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {
namespace {

[[noreturn]] void refuse(const std::string& what, ErrorKind kind = ErrorKind::kBadInput) {
  throw Error(kind, what);
}

std::int64_t size_of(const PickleTree& tree, PickleValue value, std::string_view what) {
  const auto number = tree.integer(value);
  if (!number || *number < 0 || *number >= kMostTorchElements) {
    refuse(std::string(what) + " should be a number from 0 to 2^62");
  }
  return *number;
}

constexpr std::array<std::string_view, 4> kPlainMakers{"_rebuild_tensor", "_rebuild_tensor_v2",
                                                       "_rebuild_tensor_v3", "_rebuild_parameter"};
constexpr std::string_view kParameterWithState = "_rebuild_parameter_with_state";
constexpr PickleGlobal kFromType{"torch._tensor", "_rebuild_from_type_v2"};
constexpr PickleGlobal kFromOldType{"torch._tensor", "_rebuild_from_type"};

/// Classes whose objects are tensors and nothing more.
bool is_plain_class(const PickleGlobal& type) {
  return type == PickleGlobal{"torch", "Tensor"} ||
         type == PickleGlobal{"torch._tensor", "Tensor"} ||
         type == PickleGlobal{"torch.nn.parameter", "Parameter"} ||
         type == PickleGlobal{"torch.nn.parameter", "Buffer"};
}

bool is_from_type(const PickleGlobal& maker) {
  return maker == kFromType || maker == kFromOldType;
}

/// Storages of types without a counterpart, which are passed over.
struct OtherStorage {
  std::string_view name;
  std::int64_t width;
};
constexpr std::array kOtherStorages{
    OtherStorage{"ComplexDoubleStorage", 16}, OtherStorage{"ComplexFloatStorage", 8},
    OtherStorage{"QInt8Storage", 1},          OtherStorage{"QUInt8Storage", 1},
    OtherStorage{"QInt32Storage", 4},         OtherStorage{"QUInt4x2Storage", 1},
    OtherStorage{"QUInt2x4Storage", 1},       OtherStorage{"UntypedStorage", 1},
};

}  // namespace

Shape torch_sizes(const PickleTree& tree, PickleValue value, std::string_view what) {
  const auto values = tree.tuple(value);
  if (!value.is(PickleKind::kTuple) || values.size() > kMostTorchDimensions) {
    refuse(std::string(what) + " should be a tuple of at most 64 numbers");
  }
  Shape sizes;
  for (const PickleValue number : values) sizes.push_back(size_of(tree, number, what));
  return sizes;
}

TorchStorageId storage_id(const PickleTree& tree, PickleValue value) {
  const auto id = tree.tuple(tree.arguments(value));
  const bool has_form = value.is(PickleKind::kPersistent) && (id.size() == 5 || id.size() == 6);
  if (!has_form || tree.text(id[0]) != "storage") refuse("its storage is not stated");
  const auto storage_class = tree.global(id[1]);
  const auto key = tree.text(id[2]);
  if (!storage_class || !key || key->empty() ||
      key->find_first_not_of("0123456789") != std::string_view::npos) {
    refuse("its storage has no class, or its key is no number");
  }
  if (id.size() == 6 && !id[5].is(PickleKind::kNone)) {
    refuse("its storage is a part of another one, as in releases before 0.4",
           ErrorKind::kUnsupported);
  }
  return {*storage_class, *key, size_of(tree, id[4], "the size of its storage")};
}

std::int64_t storage_width(const PickleGlobal& storage_class) {
  if (const auto dtype = pickle::dtype_of_storage(storage_class.name)) return element_size(*dtype);
  for (const OtherStorage& other : kOtherStorages) {
    if (other.name == storage_class.name) return other.width;
  }
  refuse("its storage is a " + printable(to_string(storage_class)), ErrorKind::kUnsupported);
}

bool TorchValues::is_tensor(PickleValue value) const noexcept {
  const auto maker = tree_.maker(value);
  if (!maker) return false;
  if (is_from_type(*maker)) return true;
  if (maker->module != "torch._utils" || !maker->name.starts_with("_rebuild_")) return false;
  return true;
}

bool TorchValues::is_empty_dict(PickleValue value) const {
  return value.is(PickleKind::kDict) && tree_.count(value) == 0;
}

TorchTensor TorchValues::tensor(PickleValue value) const {
  const auto maker = tree_.maker(value);
  if (!maker) refuse("it is " + std::string(kind_words(value.kind())));
  if (is_from_type(*maker)) return of_type(value);
  const bool is_parameter =
      maker->module == "torch._utils" &&
      (maker->name == "_rebuild_parameter" || maker->name == kParameterWithState);
  if (is_parameter) return parameter(value);
  if (!tree_.state(value).is(PickleKind::kUnset)) refuse("it has a state");
  return made_by(*maker, tree_.arguments(value));
}

/// (tensor, requires_grad, hooks), and with attributes of Python: (..., state).
TorchTensor TorchValues::parameter(PickleValue value) const {
  const auto arguments = tree_.tuple(tree_.arguments(value));
  const auto maker = tree_.maker(value);
  const std::size_t wanted = maker->name == kParameterWithState ? 4 : 3;
  if (arguments.size() != wanted) {
    refuse("it is made by '" + printable(to_string(*maker)) + "' of " +
           std::to_string(arguments.size()) + " arguments");
  }
  if (!is_empty_dict(arguments[2])) refuse("it has hooks");
  const auto inner = tree_.maker(arguments[0]);
  if (inner && (inner->name == "_rebuild_parameter" || inner->name == kParameterWithState)) {
    refuse("it is a parameter of a parameter");
  }
  return tensor(arguments[0]);
}

/// (function, class, arguments of the function, attributes of Python)
TorchTensor TorchValues::of_type(PickleValue value) const {
  const auto arguments = tree_.tuple(tree_.arguments(value));
  if (arguments.size() < 3) refuse("it is made by too few arguments");
  const auto function = tree_.global(arguments[0]);
  const auto type = tree_.global(arguments[1]);
  if (!function || !type) refuse("its class is not stated");
  const bool is_known =
      function->module == "torch._utils" &&
      std::find(kPlainMakers.begin(), kPlainMakers.end(), function->name) != kPlainMakers.end();
  if (!is_known || !is_plain_class(*type)) {
    refuse("it is a '" + printable(to_string(*type)) + "', whose elements only that class knows",
           ErrorKind::kUnsupported);
  }
  if (function->name != "_rebuild_parameter") return made_by(*function, arguments[2]);
  const auto inner = tree_.tuple(arguments[2]);
  if (inner.size() != 3 || is_from_type(tree_.maker(inner[0]).value_or(PickleGlobal{}))) {
    refuse("it is a parameter of something else");
  }
  if (!is_empty_dict(inner[2])) refuse("it has hooks");
  return tensor(inner[0]);
}

TorchTensor TorchValues::made_by(const PickleGlobal& maker, PickleValue values) const {
  const auto arguments = tree_.tuple(values);
  const bool first = maker.name == "_rebuild_tensor";
  const bool third = maker.name == "_rebuild_tensor_v3";
  const std::size_t least = first ? 4 : third ? 7 : 6;
  const std::size_t most = first ? 4 : least + 1;
  if (maker.module != "torch._utils" || (!first && !third && maker.name != "_rebuild_tensor_v2") ||
      arguments.size() < least || arguments.size() > most) {
    refuse("it is made by '" + printable(to_string(maker)) + "' of " +
               std::to_string(arguments.size()) + " arguments",
           ErrorKind::kUnsupported);
  }
  if (!first && !is_empty_dict(arguments[5]) && !arguments[5].is(PickleKind::kNone)) {
    refuse("it has hooks");
  }
  if (arguments.size() > least && !arguments[least].is(PickleKind::kNone) &&
      !is_empty_dict(arguments[least])) {
    refuse("it has metadata, as conjugate and negative tensors do", ErrorKind::kUnsupported);
  }
  TorchTensor out;
  if (third) out.dtype = type_of(arguments[6]);
  const std::int64_t elements = take_storage(arguments[0], third, out);
  out.first = size_of(tree_, arguments[1], "its offset");
  out.shape = torch_sizes(tree_, arguments[2], "its size");
  out.strides = torch_sizes(tree_, arguments[3], "its strides");
  require_inside(out, elements);
  return out;
}

DType TorchValues::type_of(PickleValue value) const {
  const auto global = tree_.global(value);
  if (!global || !pickle::is_torch_type(*global)) refuse("its type is no type of torch");
  const auto dtype = pickle::dtype_from_torch(global->name);
  if (!dtype) refuse("its type is " + printable(to_string(*global)), ErrorKind::kUnsupported);
  return *dtype;
}

/// ("storage", class, key, location, count)
/// @return how many elements it has.
std::int64_t TorchValues::take_storage(PickleValue value, bool typed, TorchTensor& out) const {
  const TorchStorageId id = storage_id(tree_, value);
  const bool untyped = id.storage_class.name == "UntypedStorage";
  if (!untyped) {
    const auto dtype = pickle::dtype_of_storage(id.storage_class.name);
    if (!dtype) {
      refuse("its storage is a " + printable(to_string(id.storage_class)), ErrorKind::kUnsupported);
    }
    if (typed && *dtype != out.dtype) refuse("its storage is of another type");
    out.dtype = *dtype;
  } else if (!typed) {
    refuse("its storage has no type");
  }
  const std::int64_t width = element_size(out.dtype);
  const auto bytes = untyped ? std::optional(id.count) : checked_mul(id.count, width);
  out.storage = storages_(id.key);
  if (!bytes || out.storage.length() != static_cast<std::uint64_t>(*bytes)) {
    refuse("its storage should have " + std::to_string(id.count) +
           (untyped ? " bytes" : " elements") + ", but the file has " +
           std::to_string(out.storage.length()) + " bytes of it");
  }
  return untyped ? id.count / width : id.count;
}

void TorchValues::require_inside(const TorchTensor& tensor, std::int64_t elements) const {
  if (tensor.strides.size() != tensor.shape.size()) refuse("its strides do not fit its size");
  std::optional<std::int64_t> count = 1;
  std::optional<std::int64_t> last = tensor.first;
  bool empty = false;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] == 0) empty = true;
    if (count) count = checked_mul(*count, std::max<std::int64_t>(tensor.shape[d], 1));
    const auto reach =
        checked_mul(std::max<std::int64_t>(tensor.shape[d], 1) - 1, tensor.strides[d]);
    last = reach && last ? checked_add(*last, *reach) : std::nullopt;
  }
  if (empty && tensor.first <= elements) return;
  if (empty || !last || *last >= elements) refuse("it reaches beyond its storage");
  // Each of several bytes.
  if (!count || *count > kMostTorchElements >> 4U) refuse("it has too many elements");
  if (views_ == Views::kInStorage && *count > elements) {
    refuse("it has more elements than its storage");
  }
}

bool is_contiguous(const TorchTensor& tensor) noexcept {
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return true;
  std::int64_t expected = 1;
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    if (tensor.shape[d] == 1) continue;
    if (tensor.strides[d] != expected) return false;
    expected *= tensor.shape[d];
  }
  return true;
}

void require_one_type_each(const PickleTree& tree) {
  std::unordered_map<std::string_view, std::string_view> classes;  // by key
  tree.for_each_persistent([&](PickleValue value) {
    const auto id = tree.tuple(tree.arguments(value));
    if (id.size() < 3 || tree.text(id[0]) != "storage") return;
    const auto storage_class = tree.global(id[1]);
    const auto key = tree.text(id[2]);
    if (!storage_class || !key) return;  // storage_id() refuses it
    const std::string_view known = classes.emplace(*key, storage_class->name).first->second;
    if (known == storage_class->name) return;
    throw Error(ErrorKind::kBadInput, "has a storage of two types: '" +
                                          printable(std::string(*key)) + "' is a " +
                                          printable(std::string(known)) + " and a " +
                                          printable(std::string(storage_class->name)))
        .hint("save the tensors again with PyTorch, which gives a storage one type");
  });
}

}  // namespace reshardfs
