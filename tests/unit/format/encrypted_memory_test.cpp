// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted/encrypted_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

constexpr std::size_t kBytes = 64;

void fill(SecretBuffer& buffer) {
  for (std::byte& byte : buffer.bytes()) byte = std::byte{7};
}

/// A second way to the first page of a buffer, which stays when the buffer gives it back.
class Page {
 public:
  explicit Page(SecretBuffer& buffer) {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) return;
    const iovec memory{buffer.bytes().data(), kBytes};
    good_ = ::vmsplice(ends_[1], &memory, 1, 0) == static_cast<ssize_t>(kBytes);
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() {
    for (const int end : ends_) ::close(end);
  }

  bool good() const { return good_; }
  std::string read() {
    std::string found(kBytes, 'x');
    found.resize(static_cast<std::size_t>(::read(ends_[0], found.data(), kBytes)));
    return found;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
  bool good_ = false;
};

/// Whether writing to a buffer is seen through a Page: not on every kernel.
bool pages_can_be_watched() {
  SecretBuffer buffer(kBytes, SecretBuffer::Swap::kAllowed);
  fill(buffer);
  Page page(buffer);
  if (!page.good()) return false;
  buffer.bytes()[0] = std::byte{8};
  return page.read()[0] == '\x08';
}

/// The flags that the kernel gives for the mapping that begins at `data`, between spaces.
std::string flags_of(const std::byte* data) {
  std::ostringstream wanted;
  wanted << std::hex << reinterpret_cast<std::uintptr_t>(data) << '-';
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  while (std::getline(maps, line) && line.rfind(wanted.str(), 0) != 0) continue;
  while (std::getline(maps, line)) {
    if (line.rfind("VmFlags:", 0) == 0) return line.substr(8) + " ";
  }
  return "";
}

TEST(SecretBuffer, ForgetsWhatIsCutOff) {
  SecretBuffer buffer(kBytes, SecretBuffer::Swap::kAvoided);
  std::byte* const data = buffer.bytes().data();
  fill(buffer);
  buffer.shrink(16);
  EXPECT_EQ(buffer.bytes().size(), 16U);
  EXPECT_EQ(data[15], std::byte{7});
  EXPECT_EQ(data[16], std::byte{0});
  EXPECT_EQ(data[63], std::byte{0});
  const SecretBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.bytes().data(), data);
}

TEST(SecretBuffer, IsOverwrittenBeforeItIsGivenBack) {
  if (!pages_can_be_watched()) GTEST_SKIP() << "this kernel does not let a page be watched";
  for (const auto swap : {SecretBuffer::Swap::kAllowed, SecretBuffer::Swap::kAvoided}) {
    std::optional<SecretBuffer> buffer(std::in_place, kBytes, swap);
    fill(*buffer);
    Page page(*buffer);
    ASSERT_TRUE(page.good());
    buffer.reset();
    EXPECT_EQ(page.read(), std::string(kBytes, '\0'));
  }
}

TEST(SecretBuffer, IsLeftOutOfCoreDumps) {
  const SecretBuffer buffer(kBytes, SecretBuffer::Swap::kAllowed);
  const std::string flags = flags_of(buffer.bytes().data());
  if (flags.empty()) GTEST_SKIP() << "this kernel does not show the flags of mappings";
  EXPECT_NE(flags.find(" dd "), std::string::npos) << flags;
}

/// Not where the limit is low, nor under a sanitizer, which does nothing instead.
bool memory_can_be_locked() {
  const SecretBuffer buffer(kBytes, SecretBuffer::Swap::kAllowed);
  return ::mlock(buffer.bytes().data(), kBytes) == 0 &&
         flags_of(buffer.bytes().data()).find(" lo ") != std::string::npos;
}

TEST(SecretBuffer, IsKeptOutOfSwapWhereTheSystemAllows) {
  if (!memory_can_be_locked()) GTEST_SKIP() << "this process cannot lock memory";
  const SecretBuffer buffer(kBytes, SecretBuffer::Swap::kAvoided);
  const std::string flags = flags_of(buffer.bytes().data());
  EXPECT_NE(flags.find(" lo "), std::string::npos) << flags;
}

}  // namespace
}  // namespace reshardfs
