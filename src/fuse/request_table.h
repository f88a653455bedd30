// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "storage/descriptor_pool.h"

namespace reshardfs {

/// The requests that have been taken from the kernel and are not answered, as the kernel wrote
/// them, in memory that another process can have, too: whoever goes on with a mount answers them
/// again. The kernel itself writes them there, so that a process may be killed at any moment
/// without losing one.
///
/// One process takes requests at a time; within it every member function may be called from any
/// number of threads at once.
class RequestTable {
 public:
  /// More than any request has that a read-only mount gets: a name, or two, and a fixed part. Of a
  /// longer one the beginning is kept.
  static constexpr std::size_t kSlotBytes = 512;
  /// Requests under way; what is beyond them is served as any, and not kept.
  static constexpr std::size_t kSlots = 16384;

  /// An empty table. Where it cannot be shared it is this process's alone.
  /// @throws Error kIo if there is no memory.
  RequestTable();
  /// That of another process, with its requests. @throws Error kIo
  explicit RequestTable(Descriptor memory);
  RequestTable(const RequestTable&) = delete;
  RequestTable& operator=(const RequestTable&) = delete;
  ~RequestTable();

  /// The memory, to be handed on; -1 if it is this process's alone.
  int descriptor() const noexcept { return memory_.get(); }
  /// Takes a request from `device`, as read(2) does.
  ssize_t receive(int device, void* buffer, std::size_t size) noexcept;
  /// The request has its answer, or needs none.
  void answered(std::uint64_t unique) noexcept;

  /// All that is kept, for whoever answers it again. What is not kept of a request is zeros.
  std::vector<std::string> unanswered() const;
  /// Whether each request under way is kept.
  bool is_complete() const noexcept;
  /// Learns anew what the memory holds: another process has worked with it.
  void reread();
  void clear() noexcept;

 private:
  using Slot = std::uint32_t;

  char* bytes_of(Slot slot) const noexcept { return slots_ + std::size_t{slot} * kSlotBytes; }
  Slot highest() const noexcept;
  void raise_highest(Slot slot) noexcept;
  std::optional<Slot> take_slot() noexcept;
  void note(std::optional<Slot> slot, const char* request) noexcept;
  void give_back(std::optional<Slot> slot) noexcept;

  const Descriptor memory_;
  /// The first slot holds no request, but the highest slot that was ever used: what is beyond it
  /// is not looked at, so that it never becomes memory.
  char* slots_ = nullptr;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::vector<Slot> free_;  ///< the last one is used next: little of the memory is ever touched
  std::unordered_map<std::uint64_t, Slot> by_unique_;
  std::unordered_set<std::uint64_t> not_kept_;  ///< requests under way that found no slot
};

}  // namespace reshardfs
