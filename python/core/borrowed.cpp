// SPDX-License-Identifier: Apache-2.0
#include "core/borrowed.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace py = pybind11;

namespace reshardfs::python {

Borrowed::Borrowed(const py::object& object, int flags) {
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_WRITABLE | flags) != 0) {
    throw py::error_already_set();
  }
  run_ = static_cast<std::size_t>(view_.itemsize);
  outer_ = view_.ndim;
  const auto follows = [&](int d) {
    return view_.shape[d] == 1 || view_.strides[d] == static_cast<Py_ssize_t>(run_);
  };
  while (outer_ > 0 && follows(outer_ - 1)) {
    run_ *= static_cast<std::size_t>(view_.shape[--outer_]);
  }
  if (view_.len == 0) run_ = 0;
}

Borrowed::~Borrowed() {
  if (view_.obj == nullptr) return;
  if (PyGILState_Check() != 0) {
    PyBuffer_Release(&view_);
    return;
  }
  auto view = std::make_unique<Py_buffer>(view_);
  const auto release = [](void* late) {
    const std::unique_ptr<Py_buffer> owned(static_cast<Py_buffer*>(late));
    PyBuffer_Release(owned.get());
    return 0;
  };
  if (Py_IsInitialized() != 0 && Py_AddPendingCall(release, view.get()) == 0) {
    static_cast<void>(view.release());
  }
}

void Borrowed::release() {
  PyBuffer_Release(&view_);
}

std::byte* Borrowed::place_of_run(std::uint64_t number) const noexcept {
  std::byte* place = start();
  for (int d = outer_; d-- > 0;) {
    const auto length = static_cast<std::uint64_t>(view_.shape[d]);
    place += static_cast<Py_ssize_t>(number % length) * view_.strides[d];
    number /= length;
  }
  return place;
}

void Borrowed::put(std::uint64_t offset, std::span<const std::byte> bytes) const noexcept {
  while (!bytes.empty()) {
    const auto within = static_cast<std::size_t>(offset % run_);
    const auto part = bytes.first(std::min(run_ - within, bytes.size()));
    std::memcpy(place_of_run(offset / run_) + within, part.data(), part.size());
    offset += part.size();
    bytes = bytes.subspan(part.size());
  }
}

}  // namespace reshardfs::python
