// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace reshardfs::python {

/// Room for elements, not filled: whole pages of its own where it is large. Some of those are kept
/// for the next one: to be given new pages takes as long as to read.
class Memory {
 public:
  /// @throws std::bad_alloc
  explicit Memory(std::size_t bytes);
  /// A part of another one, which it keeps.
  Memory(std::shared_ptr<const Memory> whole, std::span<std::byte> part) noexcept
      : whole_(std::move(whole)), data_(part.data()), size_(part.size()) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::span<std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  std::shared_ptr<const Memory> whole_;
  std::byte* data_ = nullptr;
  std::size_t size_;
  std::size_t mapped_ = 0;  ///< bytes; 0: from the heap, or a part
};

using MemoryPtr = std::shared_ptr<Memory>;

/// Memory for results of these sizes that are made together. Small ones share pages, up to 16 MiB
/// of them, which go when the last of these results does.
/// @throws std::bad_alloc
std::vector<MemoryPtr> memory_for(const std::vector<std::size_t>& sizes);

}  // namespace reshardfs::python
