// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/posix/descriptor.h"

namespace reshardfs {

/// The requests that were taken from the kernel and are not answered yet, as the kernel wrote them,
/// in memory that can be shared: a process that takes over the mount answers them again. The kernel
/// itself writes them there, so that no request is lost if the process is killed at any moment.
///
/// One process takes requests at a time; in that process, every member function may be called from
/// any number of threads at once.
class RequestTable {
 public:
  /// Larger than any request to a read-only mount, which has a fixed part and one or two names.
  /// Only the beginning of a longer request is kept.
  static constexpr std::size_t kSlotBytes = 512;
  /// The maximum number of requests in progress that are kept; further requests are served but not
  /// kept.
  static constexpr std::size_t kSlots = 16384;

  /// An empty table. If its memory cannot be shared, only this process has it.
  /// @throws Error kIo if there is no memory.
  RequestTable();
  /// The table of another process, with its requests. @throws Error kIo
  explicit RequestTable(Descriptor memory);
  RequestTable(const RequestTable&) = delete;
  RequestTable& operator=(const RequestTable&) = delete;
  ~RequestTable();

  /// The memory, to be passed to another process; -1 if it cannot be shared.
  int descriptor() const noexcept { return memory_.get(); }
  /// Takes a request from `device`, as read(2) does.
  ssize_t receive(int device, void* buffer, std::size_t size) noexcept;
  /// Call this when the request has been answered, or needs no answer.
  void answered(std::uint64_t unique) noexcept;

  /// All kept requests, to be answered again. Bytes that were not kept are zeros.
  std::vector<std::string> unanswered() const;
  /// Whether all requests in progress are kept.
  bool is_complete() const noexcept;
  /// Reads the memory again after another process has used it.
  void reread();
  void clear() noexcept;

 private:
  using Slot = std::uint32_t;
  static constexpr std::size_t kBytes = kSlots * kSlotBytes;

  char* bytes_of(Slot slot) const noexcept { return slots_ + std::size_t{slot} * kSlotBytes; }
  Slot highest() const noexcept;
  void raise_highest(Slot slot) noexcept;
  std::optional<Slot> take_slot() noexcept;
  void note(std::optional<Slot> slot, const char* request) noexcept;
  void give_back(std::optional<Slot> slot) noexcept;
  Slot& chain_of(std::uint64_t unique) noexcept { return first_[unique % kChains]; }
  void put_in_chain(Slot slot) noexcept;
  std::optional<Slot> take_from_chain(std::uint64_t unique) noexcept;

  const Descriptor memory_;
  /// The first slot holds, instead of a request, the highest slot that was ever used. Slots above
  /// it are never read, so that no memory is allocated for them.
  char* slots_ = nullptr;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::vector<Slot> free_;  ///< the last one is used next: little of the memory is ever touched
  // Slots with requests, in chains by the requests' numbers, so that they need no memory: one that
  // could not be found again would never be given back. The first slot ends a chain.
  static constexpr std::size_t kChains = 4096;
  std::vector<Slot> first_;
  std::vector<Slot> next_;                      ///< by slot
  std::unordered_set<std::uint64_t> not_kept_;  ///< requests under way that found no slot
  bool has_lost_count_ = false;                 ///< of those: there was no memory
};

}  // namespace reshardfs
