// SPDX-License-Identifier: Apache-2.0
#include "core/dlpack.h"

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

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
  static constexpr const char* kUnused = "dltensor";

  Array array;
  void* context;
  void (*end)(ManagedArray*);
};
struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};
struct VersionedArray {
  static constexpr const char* kUnused = "dltensor_versioned";

  Version version;
  void* context;
  void (*end)(VersionedArray*);
  std::uint64_t flags;
  Array array;
};

constexpr std::int32_t kProcessor = 1;
constexpr Version kDlpackVersion{1, 0};
constexpr std::uint64_t kIsCopied = 2;

enum Code : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4, kComplex = 5, kBool = 6 };

/// @tparam Managed ManagedArray or VersionedArray
template <typename Managed>
struct Context {
  MemoryPtr memory;
  Shape shape;
  Shape strides;
  Managed managed;
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
    case DType::kComplex64:
      return kComplex;
    default:
      throw pybind11::buffer_error("DLPack has no elements of type " +
                                   std::string(mindspore_name(dtype)));
  }
}

/// Of one that nobody has taken: whoever takes it renames it.
template <typename Managed>
void end_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, Managed::kUnused) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, Managed::kUnused));
  managed->end(managed);
}

template <typename Managed>
pybind11::capsule capsule_of(const MemoryPtr& memory, DType dtype, const Shape& shape) {
  const ElementType type{code_of(dtype), static_cast<std::uint8_t>(8 * element_size(dtype)), 1};
  auto context =
      std::make_unique<Context<Managed>>(Context<Managed>{memory, shape, Shape(shape.size()), {}});
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    context->strides[d] = step;
    step *= shape[d];
  }
  Managed& managed = context->managed;
  managed.array = {memory->bytes().data(),
                   {kProcessor, 0},
                   static_cast<std::int32_t>(shape.size()),
                   type,
                   context->shape.data(),
                   context->strides.data(),
                   0};
  managed.context = context.get();
  managed.end = [](Managed* ended) { delete static_cast<Context<Managed>*>(ended->context); };
  if constexpr (std::is_same_v<Managed, VersionedArray>) {
    managed.version = kDlpackVersion;
    managed.flags = kIsCopied;
  }
  PyObject* capsule = PyCapsule_New(&managed, Managed::kUnused, end_capsule<Managed>);
  if (capsule == nullptr) throw pybind11::error_already_set();
  static_cast<void>(context.release());  // the capsule's now
  return pybind11::reinterpret_steal<pybind11::capsule>(capsule);
}

}  // namespace

void require_dlpack_type(DType dtype) {
  static_cast<void>(code_of(dtype));
}

pybind11::capsule dlpack_capsule(const MemoryPtr& memory, DType dtype, const Shape& shape,
                                 bool versioned) {
  return versioned ? capsule_of<VersionedArray>(memory, dtype, shape)
                   : capsule_of<ManagedArray>(memory, dtype, shape);
}

}  // namespace reshardfs::python
