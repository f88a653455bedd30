// SPDX-License-Identifier: Apache-2.0
#include "fuse/request_table.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <ios>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::string request(std::uint32_t opcode, std::uint64_t unique, std::size_t length = 100) {
  std::string bytes(length, 'x');
  fuse_in_header header{};
  header.len = static_cast<std::uint32_t>(length);
  header.opcode = opcode;
  header.unique = unique;
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

/// Where the first piece goes of what a thread of this process waits for in readv(2), once it does.
const void* awaited_place(pid_t thread) {
  // As the kernel sees the thread's stack.
  const Descriptor memory(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  for (;; std::this_thread::yield()) {
    std::ifstream call("/proc/self/task/" + std::to_string(thread) + "/syscall");
    long number = -1;
    std::uintptr_t device = 0;
    std::uintptr_t pieces = 0;
    iovec first{};
    if (call >> number >> std::hex >> device >> pieces && number == SYS_readv &&
        ::pread(memory.get(), &first, sizeof first, static_cast<off_t>(pieces)) == sizeof first) {
      return first.iov_base;
    }
  }
}

/// Whether this process can write to the page without a fault.
bool is_mapped(const void* at) {
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
  const auto page =
      reinterpret_cast<std::uintptr_t>(at) / static_cast<std::uintptr_t>(::getpagesize());
  std::uint64_t entry = 0;
  const Descriptor map(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const ssize_t got =
      ::pread(map.get(), &entry, sizeof entry, static_cast<off_t>(page * sizeof entry));
  EXPECT_EQ(got, static_cast<ssize_t>(sizeof entry));
  return (entry & kPresent) != 0;
}

/// A device that keeps messages apart.
class RequestTableTest : public ::testing::Test {
 protected:
  RequestTableTest() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_.data()), 0);
  }
  ~RequestTableTest() override {
    for (const int end : ends_) ::close(end);
  }

  /// What libfuse gets of a request that comes.
  std::string receive(RequestTable& table, const std::string& bytes) {
    EXPECT_EQ(::send(ends_[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    std::string buffer(kBufferBytes, '\0');
    const ssize_t got = table.receive(ends_[1], buffer.data(), buffer.size());
    buffer.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return buffer;
  }

  static RequestTable of_other_process(const RequestTable& table) {
    return RequestTable(Descriptor(::dup(table.descriptor())));
  }

  std::array<int, 2> ends_{};
};

TEST_F(RequestTableTest, KeepsWhatIsNotAnswered) {
  RequestTable table;
  const std::string first = request(FUSE_READ, 2);
  const std::string second = request(FUSE_LOOKUP, 4, 300);
  EXPECT_EQ(receive(table, first), first);
  EXPECT_EQ(receive(table, second), second);
  table.answered(2);
  EXPECT_EQ(table.unanswered(), std::vector{second});
  const RequestTable other = of_other_process(table);
  EXPECT_EQ(other.unanswered(), std::vector{second});
  table.answered(4);
  table.answered(4);
  table.answered(17);
  EXPECT_TRUE(table.unanswered().empty());
  EXPECT_TRUE(of_other_process(table).unanswered().empty());
}

TEST_F(RequestTableTest, HasTheMemoryForARequestBeforeItComes) {
  RequestTable table;
  // One slot of the first page holds no request.
  const std::size_t fill = static_cast<std::size_t>(::getpagesize()) / RequestTable::kSlotBytes - 1;
  for (std::size_t i = 0; i < fill; ++i) receive(table, request(FUSE_READ, 2 * i + 2));
  const std::string next = request(FUSE_READ, 1000);
  std::atomic<pid_t> id = 0;
  std::string buffer(kBufferBytes, '\0');
  std::thread receiver([&] {
    id = static_cast<pid_t>(::syscall(SYS_gettid));
    table.receive(ends_[1], buffer.data(), buffer.size());
  });
  while (id == 0) std::this_thread::yield();
  const void* const place = awaited_place(id);
  EXPECT_TRUE(is_mapped(place));
  EXPECT_EQ(::send(ends_[0], next.data(), next.size(), 0), static_cast<ssize_t>(next.size()));
  receiver.join();
  EXPECT_TRUE(buffer.starts_with(next));
}

TEST_F(RequestTableTest, KeepsNothingThatHasNoAnswer) {
  RequestTable table;
  for (const std::uint32_t opcode : {FUSE_FORGET, FUSE_BATCH_FORGET, FUSE_INTERRUPT}) {
    receive(table, request(opcode, 6));
  }
  EXPECT_TRUE(table.unanswered().empty());
  EXPECT_TRUE(of_other_process(table).unanswered().empty());
}

TEST_F(RequestTableTest, PassesLongRequestsWhole) {
  RequestTable table;
  const std::string longer = request(FUSE_SETXATTR, 8, 70000);
  EXPECT_EQ(receive(table, longer), longer);
  ASSERT_EQ(table.unanswered().size(), 1U);
  EXPECT_EQ(table.unanswered().front(), longer.substr(0, RequestTable::kSlotBytes) +
                                            std::string(RequestTable::kSlotBytes, '\0'));
}

TEST_F(RequestTableTest, TellsOfRequestsThatFoundNoSlot) {
  RequestTable table;
  std::uint64_t unique = 0;
  for (std::size_t i = 0; i + 1 < RequestTable::kSlots; ++i) {
    receive(table, request(FUSE_READ, unique += 2));
  }
  EXPECT_TRUE(table.is_complete());
  const std::string more = request(FUSE_READ, unique += 2);
  EXPECT_EQ(receive(table, more), more);
  EXPECT_FALSE(table.is_complete());
  table.answered(unique);
  EXPECT_TRUE(table.is_complete());
  EXPECT_EQ(of_other_process(table).unanswered().size(), RequestTable::kSlots - 1);
  table.clear();
  EXPECT_TRUE(of_other_process(table).unanswered().empty());
}

/// All slots hold requests then, and those alone.
TEST_F(RequestTableTest, UsesEverySlotAgain) {
  RequestTable table;
  std::uint64_t unique = 0;
  const auto fill = [&](RequestTable& filled) {
    for (std::size_t i = 0; i + 1 < RequestTable::kSlots; ++i) {
      receive(filled, request(FUSE_READ, unique += 2, sizeof(fuse_in_header)));
    }
    EXPECT_TRUE(filled.is_complete());
    receive(filled, request(FUSE_READ, unique += 2));
    EXPECT_FALSE(filled.is_complete()) << "there is no other slot";
    filled.answered(unique);
    EXPECT_EQ(filled.unanswered().size(), RequestTable::kSlots - 1);
    EXPECT_EQ(of_other_process(filled).unanswered().size(), RequestTable::kSlots - 1);
  };
  for (int i = 0; i < 2; ++i) table.reread();
  fill(table);
  for (std::uint64_t i = 2; i <= unique; i += 2) table.answered(i);
  fill(table);
  table.clear();
  fill(table);
  table.clear();
  RequestTable other = of_other_process(table);
  fill(other);
}

TEST_F(RequestTableTest, KeepsItsSlotsWhereNothingComes) {
  RequestTable table;
  ASSERT_EQ(::fcntl(ends_[1], F_SETFL, O_NONBLOCK), 0);
  std::string buffer(kBufferBytes, '\0');
  for (const std::size_t size : {buffer.size(), RequestTable::kSlotBytes}) {
    for (std::size_t i = 0; i < RequestTable::kSlots; ++i) {
      ASSERT_EQ(table.receive(ends_[1], buffer.data(), size), -1);
      ASSERT_EQ(errno, EAGAIN);
    }
  }
  const std::string next = request(FUSE_READ, 2, RequestTable::kSlotBytes);
  receive(table, next);
  EXPECT_TRUE(table.is_complete());
  EXPECT_EQ(table.unanswered(), std::vector{next}) << "as long as it is";
  table.answered(2);
  ::shutdown(ends_[0], SHUT_WR);
  for (const std::size_t size : {buffer.size(), RequestTable::kSlotBytes}) {
    EXPECT_EQ(table.receive(ends_[1], buffer.data(), size), 0);
  }
  EXPECT_TRUE(table.is_complete());
  EXPECT_TRUE(table.unanswered().empty());
}

TEST_F(RequestTableTest, NeedsMemoryThatCanBeShared) {
  const int no_memory = ::dup(ends_[0]);
  test::expect_error(ErrorKind::kIo, {"keep requests in memory"},
                     [no_memory] { const RequestTable table{Descriptor(no_memory)}; });
}

TEST_F(RequestTableTest, LearnsWhatAnotherProcessHasDone) {
  RequestTable table;
  receive(table, request(FUSE_READ, 2));
  RequestTable other = of_other_process(table);
  other.answered(2);
  const std::string later = request(FUSE_READ, 10);
  receive(other, later);
  table.reread();
  EXPECT_EQ(table.unanswered(), std::vector{later});
}

}  // namespace
}  // namespace reshardfs
