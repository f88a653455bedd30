// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace reshardfs::python {

/// Room for elements, not filled: whole pages of its own where it is large.
class Memory {
 public:
  /// @throws std::bad_alloc
  explicit Memory(std::size_t bytes);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_;
  std::size_t mapped_ = 0;  ///< bytes; 0: from the heap
};

using MemoryPtr = std::shared_ptr<Memory>;

}  // namespace reshardfs::python
