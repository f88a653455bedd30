// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/memory_record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "reshardfs/error.h"

#include "base/posix/read_write.h"

namespace reshardfs {
namespace {

/// At the beginning: where the text is. Written by one call within one page, which the kernel does
/// not break off.
struct Where {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// Of a text two places take turns. They lie so far apart that no text reaches the other one; what
/// lies between is no memory.
constexpr std::uint64_t kFirst = 4096;
constexpr std::uint64_t kSecond = std::uint64_t{1} << 32;
constexpr std::uint64_t kBytesOfText = kSecond << 1;

/// Behind both texts.
constexpr std::uint64_t kOpenings = kBytesOfText << 1;
constexpr std::size_t kOpeningsBytes = std::size_t{16} << 20;

void write_at(int memory, std::uint64_t offset, std::span<const std::byte> bytes) {
  const int failed = write_fully(memory, offset, bytes);
  if (failed != 0) throw io_error("keep a text in memory", "", failed);
}

/// Fewer bytes where the memory ends.
std::string read_from(int memory, std::uint64_t offset, std::size_t size) {
  std::string text(size, '\0');
  const auto got = read_fully(memory, offset, std::as_writable_bytes(std::span(text)));
  if (!got) throw io_error("read what another process has kept", "", errno);
  text.resize(*got);
  return text;
}

std::uint64_t begin_of(MemoryRecord::Text text) noexcept {
  return text == MemoryRecord::Text::kState ? 0 : kBytesOfText;
}

/// Relative to the text's beginning.
Where where_in(int memory, std::uint64_t begin) {
  Where where;
  const std::string bytes = read_from(memory, begin, sizeof where);
  bytes.copy(reinterpret_cast<char*>(&where), sizeof where);
  return where;
}

}  // namespace

MemoryRecord::MemoryRecord() : memory_(::memfd_create("reshardfs-mount", MFD_CLOEXEC)) {
  if (memory_.get() < 0) throw io_error("keep a text in memory", "", errno);
}

void MemoryRecord::write(std::string_view text, Text which) {
  const std::uint64_t begin = begin_of(which);
  const Where old = where_in(memory_.get(), begin);
  const Where fresh{old.offset == kFirst ? kSecond : kFirst, text.size()};
  write_at(memory_.get(), begin + fresh.offset, std::as_bytes(std::span(text)));
  write_at(memory_.get(), begin, std::as_bytes(std::span(&fresh, 1)));
  // The old one's memory is given back where the kernel can.
  if (old.size == 0) return;
  static_cast<void>(::fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(begin + old.offset),
                                static_cast<off_t>(old.size)));
}

std::span<OpeningTable::Entry> MemoryRecord::openings() {
  if (!openings_) {
    if (::ftruncate(memory_.get(), static_cast<off_t>(kOpenings + kOpeningsBytes)) != 0) {
      throw io_error("keep openings in memory", "", errno);
    }
    void* const place = ::mmap(nullptr, kOpeningsBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                               memory_.get(), static_cast<off_t>(kOpenings));
    if (place == MAP_FAILED) throw io_error("keep openings in memory", "", errno);
    openings_.reset(static_cast<OpeningTable::Entry*>(place));
  }
  return {openings_.get(), kOpeningsBytes / sizeof(OpeningTable::Entry)};
}

void MemoryRecord::Unmap::operator()(OpeningTable::Entry* entries) const noexcept {
  ::munmap(entries, kOpeningsBytes);
}

std::string MemoryRecord::read(Text which) const {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;
  const std::uint64_t begin = begin_of(which);
  const Where where = where_in(memory_.get(), begin);
  if (where.size > kMost) throw io_error("read what another process has kept", "", EFBIG);
  return read_from(memory_.get(), begin + where.offset, static_cast<std::size_t>(where.size));
}

}  // namespace reshardfs
