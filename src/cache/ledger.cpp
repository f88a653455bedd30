// SPDX-License-Identifier: Apache-2.0
#include "cache/ledger.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "base/posix/page_size.h"
#include "base/posix/read_write.h"
#include "cache/checksum.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kLedgerMagic = 0x31304c5243534852;  // "RHSCRL01"

/// The ledger's form in the file. The last member is the sum of those before.
struct LedgerLayout {
  std::uint64_t magic = kLedgerMagic;
  std::uint64_t boot = 0;
  std::uint64_t held = 0;
  std::uint64_t added = 0;
  std::uint64_t recount = 0;
  std::uint64_t known = 0;
  std::uint64_t sum = 0;
};
static_assert(std::has_unique_object_representations_v<LedgerLayout>);

std::uint64_t sum_of(const LedgerLayout& layout) noexcept {
  return checksum(std::as_bytes(std::span(&layout, 1)).first(offsetof(LedgerLayout, sum)));
}

std::uint64_t this_boot() noexcept {
  const Descriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<std::byte, 64> text{};
  const std::size_t got = read_fully(file.get(), 0, text).value_or(0);
  return got == 0 ? 0 : checksum(Bytes(text).first(got));
}

}  // namespace

std::uint64_t occupied(std::uint64_t size) noexcept {
  return whole_pages(size);
}

std::uint64_t random_number() noexcept {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) == sizeof(number)) return number;
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

Ledger::Ledger(Descriptor file) noexcept : file_(std::move(file)), boot_(this_boot()) {}

Balance Ledger::read() const noexcept {
  LedgerLayout found;
  iovec buffer{&found, sizeof(found)};
  if (read_fully(file_.get(), 0, std::span(&buffer, 1)) != 0) return {};
  if (found.sum != sum_of(found) || found.magic != kLedgerMagic || found.boot != boot_) return {};
  return {found.known != 0, found.held, found.added, found.recount};
}

int Ledger::write(const Balance& balance) noexcept {
  LedgerLayout layout;
  layout.boot = boot_;
  layout.held = balance.held;
  layout.added = balance.added;
  layout.recount = balance.recount;
  layout.known = balance.known ? 1 : 0;
  layout.sum = sum_of(layout);
  return write_fully(file_.get(), 0, std::as_bytes(std::span(&layout, 1)));
}

bool Ledger::is_removed() const noexcept {
  const auto status = file_.status();
  return status && status->st_nlink == 0;
}

}  // namespace reshardfs
