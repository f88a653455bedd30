// SPDX-License-Identifier: Apache-2.0
#include "fuse/request_table.h"

#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

constexpr std::size_t kBytes = RequestTable::kSlots * RequestTable::kSlotBytes;

/// None where there is no room for it (RLIMIT_FSIZE), or no such call.
Descriptor new_memory() noexcept {
  Descriptor memory(::memfd_create("reshardfs-requests", MFD_CLOEXEC));
  if (memory && ::ftruncate(memory.get(), static_cast<off_t>(kBytes)) != 0) return Descriptor();
  return memory;
}

/// A slot without a request has length 0.
fuse_in_header header_in(const char* slot) noexcept {
  fuse_in_header header{};
  std::memcpy(&header, slot, sizeof header);
  return header;
}

void clear_length(char* slot) noexcept {
  constexpr std::uint32_t kNothing = 0;
  std::memcpy(slot + offsetof(fuse_in_header, len), &kNothing, sizeof kNothing);
}

bool has_answer(std::uint32_t opcode) noexcept {
  return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT;
}

}  // namespace

RequestTable::RequestTable() : RequestTable(new_memory()) {}

RequestTable::RequestTable(Descriptor memory) : memory_(std::move(memory)) {
  // Only what is used of it becomes memory.
  const int flags = memory_.get() < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, flags, memory_.get(), 0);
  if (at == MAP_FAILED) throw io_error("keep requests in memory", "", errno);
  slots_ = static_cast<char*>(at);
  try {
    reread();
  } catch (...) {
    ::munmap(slots_, kBytes);
    throw;
  }
}

RequestTable::~RequestTable() {
  ::munmap(slots_, kBytes);
}

ssize_t RequestTable::receive(int device, void* buffer, std::size_t size) noexcept {
  const std::optional<Slot> slot = take_slot();
  if (!slot || size <= kSlotBytes) {
    give_back(slot);
    const ssize_t got = ::read(device, buffer, size);
    if (got > 0) note(std::nullopt, static_cast<const char*>(buffer));
    return got;
  }
  char* const kept = bytes_of(*slot);
  // The memory must be there before the kernel writes to it: for a process that is killed
  // meanwhile, the kernel fetches no memory, and the request fails with EIO.
  clear_length(kept);
  char* const bytes = static_cast<char*>(buffer);
  const std::array<iovec, 2> places{
      {{.iov_base = kept, .iov_len = kSlotBytes},
       {.iov_base = bytes + kSlotBytes, .iov_len = size - kSlotBytes}}};
  const ssize_t got = ::readv(device, places.data(), static_cast<int>(places.size()));
  if (got <= 0) {
    const int error = errno;
    give_back(slot);
    errno = error;
    return got;
  }
  std::memcpy(bytes, kept, std::min(static_cast<std::size_t>(got), kSlotBytes));
  note(slot, kept);
  return got;
}

std::optional<RequestTable::Slot> RequestTable::take_slot() noexcept {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const Slot slot = free_.back();
  free_.pop_back();
  if (slot > highest()) raise_highest(slot);
  return slot;
}

RequestTable::Slot RequestTable::highest() const noexcept {
  Slot slot = 0;
  std::memcpy(&slot, slots_, sizeof slot);
  return slot;
}

void RequestTable::raise_highest(Slot slot) noexcept {
  std::memcpy(slots_, &slot, sizeof slot);
}

void RequestTable::give_back(std::optional<Slot> slot) noexcept {
  if (!slot) return;
  clear_length(bytes_of(*slot));
  const std::lock_guard lock(mutex_);
  free_.push_back(*slot);  // has had room for all of them since reread()
}

/// The request has come.
void RequestTable::note(std::optional<Slot> slot, const char* request) noexcept {
  const fuse_in_header header = header_in(request);
  if (!has_answer(header.opcode)) return give_back(slot);
  try {
    const std::lock_guard lock(mutex_);
    if (slot) {
      by_unique_[header.unique] = *slot;
    } else {
      not_kept_.insert(header.unique);
    }
  } catch (const std::exception&) {
    // No memory: the request stays in its slot. A process that takes over the mount answers it
    // again, and the kernel ignores that answer.
  }
}

void RequestTable::answered(std::uint64_t unique) noexcept {
  std::optional<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    if (!not_kept_.empty()) not_kept_.erase(unique);
    const auto found = by_unique_.find(unique);
    if (found == by_unique_.end()) return;
    slot = found->second;
    by_unique_.erase(found);
  }
  give_back(slot);
}

std::vector<std::string> RequestTable::unanswered() const {
  std::vector<std::string> requests;
  const std::lock_guard lock(mutex_);
  for (const auto& [unique, slot] : by_unique_) {
    const char* const bytes = bytes_of(slot);
    const std::size_t length = header_in(bytes).len;
    std::string& request = requests.emplace_back(bytes, std::min(length, kSlotBytes));
    // Who looks for the end of a name finds one.
    if (length > kSlotBytes) request.append(kSlotBytes, '\0');
  }
  return requests;
}

bool RequestTable::is_complete() const noexcept {
  const std::lock_guard lock(mutex_);
  return not_kept_.empty();
}

void RequestTable::reread() {
  const std::lock_guard lock(mutex_);
  free_.reserve(kSlots);
  free_.clear();
  by_unique_.clear();
  const Slot highest_used = std::min<Slot>(highest(), kSlots - 1);
  for (Slot slot = kSlots - 1; slot > 0; --slot) {
    if (slot > highest_used) {
      free_.push_back(slot);
      continue;
    }
    const fuse_in_header header = header_in(bytes_of(slot));
    if (header.len < sizeof header || !has_answer(header.opcode)) {
      free_.push_back(slot);
    } else {
      by_unique_[header.unique] = slot;
    }
  }
}

void RequestTable::clear() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [unique, slot] : by_unique_) {
    clear_length(bytes_of(slot));
    free_.push_back(slot);
  }
  by_unique_.clear();
}

}  // namespace reshardfs
