// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <pybind11/pybind11.h>

namespace reshardfs::python {

/// Somebody else's writable memory, for as long as it is filled. Its elements may lie apart.
class Borrowed {
 public:
  /// With the GIL.
  /// @param flags PyBUF_C_CONTIGUOUS, if the elements may not lie apart.
  /// @throws pybind11::error_already_set if it cannot be written, or they do.
  explicit Borrowed(const pybind11::object& object, int flags = PyBUF_STRIDED);
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  /// A read that was left to itself ends without the GIL; then Python's main thread lets it go.
  ~Borrowed();

  /// With the GIL.
  void release();

  /// Bytes of all elements, without what lies between them.
  std::size_t size() const noexcept { return static_cast<std::size_t>(view_.len); }
  /// Whether the elements follow upon each other in C order.
  bool is_contiguous() const noexcept { return run_ == size(); }
  /// If is_contiguous().
  std::span<std::byte> bytes() const noexcept { return {start(), size()}; }
  /// Puts bytes where those from `offset` on have their place, in C order.
  void put(std::uint64_t offset, std::span<const std::byte> bytes) const noexcept;

 private:
  std::byte* start() const noexcept { return static_cast<std::byte*>(view_.buf); }
  std::byte* place_of_run(std::uint64_t number) const noexcept;

  Py_buffer view_{};
  std::size_t run_ = 0;  ///< bytes that follow upon each other
  int outer_ = 0;        ///< dimensions over these runs
};

}  // namespace reshardfs::python
