// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_zip_tensors.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_tree.h"
#include "format/torch/tensor_limits.h"
#include "format/torch/torch_zip.h"

namespace reshardfs {
namespace {

/// A data.pkl has some hundred bytes for each tensor, and is held several times over while it is
/// read: of one tensor, and of as many as an archive's directory may have.
constexpr std::uint64_t kMostBytesOfOne = 1ULL << 20U;
constexpr std::uint64_t kMostBytesOfAll = 64ULL << 20U;

class TensorReader {
 public:
  /// @param most how long its data.pkl may be.
  TensorReader(const ByteSource& source, const ByteRange& place, std::uint64_t most)
      : source_(source),
        place_(place),
        zip_(source, place),
        at_(zip_.entry("data.pkl").offset()),
        tree_(read_pickle(most)) {}

  TorchTensor read_one() const { return tensor(tree_.root()); }

  std::vector<TorchTensor> read_all(const std::function<bool(std::string_view)>& takes) const {
    if (!tree_.root().is(PickleKind::kDict)) refuse("it should be a dictionary of tensors");
    std::vector<TorchTensor> tensors;
    tree_.for_each_pair(tree_.root(), [&](PickleValue key, PickleValue value) {
      const auto name = tree_.text(key);
      if (!name) refuse("the name of a tensor should be text");
      if (takes && !takes(*name)) return true;
      tensors.push_back(tensor(value));
      tensors.back().name = *name;
      return true;
    });
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, ErrorKind kind = ErrorKind::kBadInput) const {
    throw Error(kind, "the archive here has no tensor that can be read: " + what)
        .in_file(source_.name())
        .at_offset(place_.offset());
  }

  PickleTree read_pickle(std::uint64_t most) const {
    std::string bytes = zip_.read("data.pkl", most);
    try {
      return PickleTree(std::move(bytes), pickle::kArchiveRules);
    } catch (const Error& error) {
      throw Error(error.kind(), error.message())
          .in_file(source_.name())
          .at_offset(at_ + error.offset().value_or(0));
    }
  }

  bool is_empty_dict(PickleValue value) const {
    return value.is(PickleKind::kDict) && tree_.count(value) == 0;
  }

  std::int64_t size_of(PickleValue value, const char* what) const {
    const auto number = tree_.integer(value);
    if (!number || *number < 0 || *number >= kMostTorchElements) {
      refuse(std::string(what) + " should be a number from 0 to 2^62");
    }
    return *number;
  }

  Shape sizes_of(PickleValue value, const char* what) const {
    const auto values = tree_.tuple(value);
    if (!value.is(PickleKind::kTuple) || values.size() > kMostTorchDimensions) {
      refuse(std::string(what) + " should be a tuple of at most 64 numbers");
    }
    Shape sizes;
    for (const PickleValue number : values) sizes.push_back(size_of(number, what));
    return sizes;
  }

  TorchTensor tensor(PickleValue value) const {
    const auto maker = tree_.maker(value);
    if (!maker) refuse("it is " + std::string(kind_words(value.kind())));
    const auto arguments = tree_.tuple(tree_.arguments(value));
    if (maker->name == "_rebuild_parameter" && arguments.size() == 3) {
      if (!is_empty_dict(arguments[2])) refuse("it has hooks");
      if (tree_.maker(arguments[0]).value_or(PickleGlobal{}).name == maker->name) {
        refuse("it is a parameter of a parameter");
      }
      return tensor(arguments[0]);
    }
    const bool third = maker->name == "_rebuild_tensor_v3";
    const std::size_t least = third ? 7 : 6;
    if (maker->module != "torch._utils" || (!third && maker->name != "_rebuild_tensor_v2") ||
        arguments.size() < least || arguments.size() > least + 1) {
      refuse("it is made by '" + printable(to_string(*maker)) + "' of " +
             std::to_string(arguments.size()) + " arguments");
    }
    if (!tree_.state(value).is(PickleKind::kUnset)) refuse("it has a state");
    if (!is_empty_dict(arguments[5])) refuse("it has hooks");
    if (arguments.size() > least && !arguments[least].is(PickleKind::kNone) &&
        !is_empty_dict(arguments[least])) {
      refuse("it has metadata, as conjugate and negative tensors do");
    }
    TorchTensor out;
    if (third) out.dtype = type_of(arguments[6]);
    const std::int64_t elements = take_storage(arguments[0], third, out);
    out.first = size_of(arguments[1], "its offset");
    out.shape = sizes_of(arguments[2], "its size");
    out.strides = sizes_of(arguments[3], "its strides");
    require_inside(out, elements);
    return out;
  }

  DType type_of(PickleValue value) const {
    const auto global = tree_.global(value);
    if (!global || !pickle::is_torch_type(*global)) refuse("its type is no type of torch");
    const auto dtype = pickle::dtype_from_torch(global->name);
    if (!dtype) {
      refuse("its type is " + printable(to_string(*global)), ErrorKind::kUnsupported);
    }
    return *dtype;
  }

  /// ("storage", class, key, location, count)
  /// @return how many elements it has.
  std::int64_t take_storage(PickleValue value, bool typed, TorchTensor& out) const {
    const auto id = tree_.tuple(tree_.arguments(value));
    if (!value.is(PickleKind::kPersistent) || id.size() != 5 || tree_.text(id[0]) != "storage") {
      refuse("its storage is not told");
    }
    const auto storage = tree_.global(id[1]);
    const auto key = tree_.text(id[2]);
    if (!storage || !key || key->find_first_not_of("0123456789") != std::string_view::npos ||
        key->empty()) {
      refuse("its storage has no class, or its key is no number");
    }
    const bool untyped = storage->name == "UntypedStorage";
    if (!untyped) {
      const auto dtype = pickle::dtype_of_storage(storage->name);
      if (!dtype) {
        refuse("its storage is a " + printable(to_string(*storage)), ErrorKind::kUnsupported);
      }
      if (typed && *dtype != out.dtype) refuse("its storage is of another type");
      out.dtype = *dtype;
    } else if (!typed) {
      refuse("its storage has no type");
    }
    const std::int64_t count = size_of(id[4], "the size of its storage");
    const std::int64_t width = element_size(out.dtype);
    const auto bytes = untyped ? std::optional(count) : checked_mul(count, width);
    out.storage = zip_.entry("data/" + std::string(*key));
    if (!bytes || out.storage.length() != static_cast<std::uint64_t>(*bytes)) {
      refuse("its storage should have " + std::to_string(count) +
             (untyped ? " bytes" : " elements") + ", but the entry has " +
             std::to_string(out.storage.length()) + " bytes");
    }
    return untyped ? count / width : count;
  }

  void require_inside(const TorchTensor& tensor, std::int64_t elements) const {
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
    if (!count || *count > elements) refuse("it has more elements than its storage");
  }

  const ByteSource& source_;
  ByteRange place_;
  TorchZip zip_;
  std::uint64_t at_;  ///< of data.pkl, in the source
  PickleTree tree_;
};

}  // namespace

TorchTensor read_torch_tensor(const ByteSource& source, const ByteRange& place) {
  return TensorReader(source, place, kMostBytesOfOne).read_one();
}

std::vector<TorchTensor> read_torch_tensors(const ByteSource& source, const ByteRange& place,
                                            const std::function<bool(std::string_view)>& takes) {
  return TensorReader(source, place, kMostBytesOfAll).read_all(takes);
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

}  // namespace reshardfs
