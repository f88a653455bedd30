// SPDX-License-Identifier: Apache-2.0
#include "core/dlpack.h"

#include <cstdint>
#include <memory>
#include <string>

namespace reshardfs::python {
namespace {

// As dlpack.h has them; the names are ours.
struct Device {
  std::int32_t type;
  std::int32_t number;
};
struct ElementType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct Array {
  void* data;
  Device device;
  std::int32_t dimensions;
  ElementType type;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements
  std::uint64_t offset;
};
struct ManagedArray {
  Array array;
  void* context;
  void (*end)(ManagedArray*);
};

constexpr std::int32_t kProcessor = 1;
constexpr const char* kUnused = "dltensor";

enum Code : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4, kBool = 6 };

struct Context {
  MemoryPtr memory;
  Shape shape;
  Shape strides;
  ManagedArray managed;
};

Code code_of(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return kBool;
    case DType::kInt4:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return kInt;
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
      return kUInt;
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return kFloat;
    case DType::kBFloat16:
      return kBFloat;
    default:
      throw pybind11::buffer_error("DLPack has no elements of type " +
                                   std::string(mindspore_name(dtype)));
  }
}

/// Of one that nobody has taken: whoever takes it renames it.
void end_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kUnused) == 0) return;
  auto* managed = static_cast<ManagedArray*>(PyCapsule_GetPointer(capsule, kUnused));
  managed->end(managed);
}

}  // namespace

pybind11::capsule dlpack_capsule(const MemoryPtr& memory, DType dtype, const Shape& shape) {
  const ElementType type{code_of(dtype), static_cast<std::uint8_t>(8 * element_size(dtype)), 1};
  auto context = std::make_unique<Context>(Context{memory, shape, Shape(shape.size()), {}});
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    context->strides[d] = step;
    step *= shape[d];
  }
  context->managed = {{memory->bytes().data(),
                       {kProcessor, 0},
                       static_cast<std::int32_t>(shape.size()),
                       type,
                       context->shape.data(),
                       context->strides.data(),
                       0},
                      context.get(),
                      [](ManagedArray* array) { delete static_cast<Context*>(array->context); }};
  PyObject* capsule = PyCapsule_New(&context->managed, kUnused, end_capsule);
  if (capsule == nullptr) throw pybind11::error_already_set();
  static_cast<void>(context.release());  // the capsule's now
  return pybind11::reinterpret_steal<pybind11::capsule>(capsule);
}

}  // namespace reshardfs::python
