// SPDX-License-Identifier: Apache-2.0
#include "format/torch/tensor_pickle.h"

#include <algorithm>

#include "base/checked.h"
#include "format/torch/pickle_globals.h"

namespace reshardfs {
namespace {

void put_sizes(PickleWriter& out, const Shape& sizes) {
  out.mark();
  for (const std::int64_t size : sizes) out.integer(size);
  out.tuple();
}

/// Of a tensor in C order; as torch counts them where a dimension is 0.
Shape strides_of(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step = mul_or_throw(step, std::max<std::int64_t>(shape[d], 1), "the size of a tensor");
  }
  return strides;
}

}  // namespace

bool is_torch_dtype(DType dtype) noexcept {
  return pickle::dtype_from_torch(pickle::torch_name(dtype)) == dtype;
}

std::uint64_t torch_bytes(DType dtype, const Shape& shape) {
  return static_cast<std::uint64_t>(
      mul_or_throw(element_count(shape), element_size(dtype), "the size of a tensor"));
}

/// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks), or _v3 with the type
/// behind it, for types that have no class of storage (torch/_utils.py).
void put_tensor(PickleWriter& out, DType dtype, const Shape& shape, std::string_view key) {
  const std::uint64_t bytes = torch_bytes(dtype, shape);
  const std::string_view storage = pickle::storage_of(dtype);
  const bool typed = !storage.empty();
  const auto width = static_cast<std::uint64_t>(element_size(dtype));
  out.global({"torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3"});
  out.mark();
  out.mark();
  out.text("storage");
  out.global(typed ? PickleGlobal{"torch", storage}
                   : PickleGlobal{"torch.storage", "UntypedStorage"});
  out.text(key);
  out.text("cpu");
  out.integer(static_cast<std::int64_t>(typed ? bytes / width : bytes));
  out.tuple();
  out.persistent();
  out.integer(0);
  put_sizes(out, shape);
  put_sizes(out, strides_of(shape));
  out.boolean(false);
  out.global({"collections", "OrderedDict"});
  out.empty_tuple();
  out.call();
  if (!typed) out.global({"torch", pickle::torch_name(dtype)});
  out.tuple();
  out.call();
}

}  // namespace reshardfs
