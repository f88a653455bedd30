// SPDX-License-Identifier: Apache-2.0
#include "fuse/request_table.h"

#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

/// None where there is no room for it (RLIMIT_FSIZE), or no such call.
Descriptor new_memory(std::size_t bytes) noexcept {
  Descriptor memory(::memfd_create("reshardfs-requests", MFD_CLOEXEC));
  if (memory && ::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) return Descriptor();
  return memory;
}

/// A slot without a request has length 0.
fuse_in_header header_in(const char* slot) noexcept {
  fuse_in_header header{};
  std::memcpy(&header, slot, sizeof header);
  return header;
}

/// A number in the memory, which another process reads if this one is killed after any store.
std::atomic_ref<std::uint32_t> shared_number(char* place) noexcept {
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(place));
}

void clear_length(char* slot) noexcept {
  shared_number(slot + offsetof(fuse_in_header, len)).store(0, std::memory_order_release);
}

bool has_answer(std::uint32_t opcode) noexcept {
  return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT;
}

}  // namespace

RequestTable::RequestTable() : RequestTable(new_memory(kBytes)) {}

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
  return shared_number(slots_).load(std::memory_order_acquire);
}

void RequestTable::raise_highest(Slot slot) noexcept {
  shared_number(slots_).store(slot, std::memory_order_release);
}

void RequestTable::put_in_chain(Slot slot) noexcept {
  Slot& first = chain_of(header_in(bytes_of(slot)).unique);
  next_[slot] = first;
  first = slot;
}

std::optional<RequestTable::Slot> RequestTable::take_from_chain(std::uint64_t unique) noexcept {
  for (Slot* at = &chain_of(unique); *at != 0; at = &next_[*at]) {
    const Slot slot = *at;
    if (header_in(bytes_of(slot)).unique != unique) continue;
    *at = next_[slot];
    return slot;
  }
  return std::nullopt;
}

void RequestTable::give_back(std::optional<Slot> slot) noexcept {
  if (!slot) return;
  clear_length(bytes_of(*slot));
  const std::lock_guard lock(mutex_);
  free_.push_back(*slot);  // has had room for all of them since reread()
}

/// Records a request that the kernel has sent.
void RequestTable::note(std::optional<Slot> slot, const char* request) noexcept {
  const fuse_in_header header = header_in(request);
  if (!has_answer(header.opcode)) return give_back(slot);
  const std::lock_guard lock(mutex_);
  if (slot) return put_in_chain(*slot);
  try {
    not_kept_.insert(header.unique);
  } catch (const std::exception&) {
    has_lost_count_ = true;
  }
}

void RequestTable::answered(std::uint64_t unique) noexcept {
  std::optional<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    if (!not_kept_.empty()) not_kept_.erase(unique);
    slot = take_from_chain(unique);
  }
  give_back(slot);
}

std::vector<std::string> RequestTable::unanswered() const {
  std::vector<std::string> requests;
  const std::lock_guard lock(mutex_);
  for (const Slot first : first_) {
    for (Slot slot = first; slot != 0; slot = next_[slot]) {
      const char* const bytes = bytes_of(slot);
      const std::size_t length = header_in(bytes).len;
      std::string& request = requests.emplace_back(bytes, std::min(length, kSlotBytes));
      // Code that looks for the end of a name finds it in the text.
      if (length > kSlotBytes) request.append(kSlotBytes, '\0');
    }
  }
  return requests;
}

bool RequestTable::is_complete() const noexcept {
  const std::lock_guard lock(mutex_);
  return not_kept_.empty() && !has_lost_count_;
}

void RequestTable::reread() {
  const std::lock_guard lock(mutex_);
  free_.reserve(kSlots);
  free_.clear();
  first_.assign(kChains, 0);
  next_.resize(kSlots);
  const Slot highest_used = highest();
  for (Slot slot = kSlots - 1; slot > 0; --slot) {
    if (slot > highest_used) {
      free_.push_back(slot);
      continue;
    }
    const fuse_in_header header = header_in(bytes_of(slot));
    if (header.len < sizeof header || !has_answer(header.opcode)) {
      free_.push_back(slot);
    } else {
      put_in_chain(slot);
    }
  }
}

void RequestTable::clear() noexcept {
  const std::lock_guard lock(mutex_);
  for (Slot& first : first_) {
    for (; first != 0; first = next_[first]) {
      clear_length(bytes_of(first));
      free_.push_back(first);
    }
  }
}

}  // namespace reshardfs
