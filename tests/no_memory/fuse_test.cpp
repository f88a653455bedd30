// SPDX-License-Identifier: Apache-2.0
/// The queue of a mount's requests, and what is handed over with a mount.
#include <linux/fuse.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/posix/descriptor_message.h"
#include "daemon/handover/memory_record.h"
#include "failing_allocations.h"
#include "fuse/event_log.h"
#include "fuse/kernel_caches.h"
#include "fuse/opening_table.h"
#include "fuse/queue/storage_queue.h"
#include "fuse/request_table.h"
#include "fuse/served_tree.h"
#include "fuse/wake_pipe.h"
#include "support/recorded_log.h"
#include "unit/vfs/sized_file.h"

namespace reshardfs::no_memory {
namespace {

using namespace std::chrono_literals;

TEST(Queue, RunsWorkOrRefusesIt) {
  StorageQueue queue{StorageQueue::Ticks::kByHand};
  std::atomic<int> ran = 0;
  const auto submit = [&](WaitClass kind) {
    queue.submit(nullptr, kind, 0, [&]() noexcept {
      ++ran;
      return Reply::error(0);
    });
  };
  StorageQueue::Clock::time_point now{1h};
  with_each_failing(
      Threads::kThisOne,
      [&] {
        submit(WaitClass::kRead);
        submit(WaitClass::kDirectory);
        queue.tick(now);
      },
      [&] {
        const int before = ran;
        submit(WaitClass::kRead);
        submit(WaitClass::kFile);
        EXPECT_EQ(ran, before + 2);
        now += 1s;
        EXPECT_FALSE(queue.tick(now));
      });
}

/// Every permit is taken: work waits, and is run by who has one.
TEST(Queue, KeepsWorkThatWaits) {
  StorageQueue queue{StorageQueue::Ticks::kByHand};
  constexpr unsigned kPermits = kWaitLimits[static_cast<std::size_t>(WaitClass::kMade)].permits;
  std::atomic<unsigned> begun = 0;
  std::atomic<bool> go = false;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kPermits; ++i) {
    threads.emplace_back([&] {
      queue.submit(nullptr, WaitClass::kMade, 0, [&]() noexcept {
        ++begun;
        begun.notify_all();
        go.wait(false);
        return Reply::error(0);
      });
    });
  }
  for (unsigned now = begun; now < kPermits; now = begun) begun.wait(now);
  std::atomic<int> ran = 0;
  int queued = 0;
  with_each_failing(
      Threads::kThisOne,
      [&] {
        queue.submit(nullptr, WaitClass::kMade, 0, [&]() noexcept {
          ++ran;
          return Reply::error(0);
        });
        ++queued;
      },
      [] {});
  go = true;
  go.notify_all();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, queued) << "what was taken is run, and what was refused is not";
}

TEST(Openings, AreCountedOrForgottenAndLeaveTheirPlaces) {
  std::array<OpeningTable::Entry, 3> entries;
  OpeningTable table(entries);
  with_each_failing(
      Threads::kThisOne,
      [&] {
        table.add(10, 7);
        table.remove(10);
      },
      [&] {
        table.add(12, 7);
        table.add(14, 8);
        const OpeningTable other(entries);
        EXPECT_EQ(other.of(7), 1U);
        EXPECT_EQ(other.of(8), 1U);
        EXPECT_EQ(table.remove(12), 7U);
        EXPECT_EQ(table.remove(14), 8U);
      });
}

TEST(Requests, NeedNoMemoryToBeKept) {
  RequestTable table;
  const auto [own, other] = message_sockets();
  std::vector<char> buffer(kRequestBytes);
  fuse_in_header header{};
  header.len = sizeof header;
  header.opcode = FUSE_GETATTR;
  std::string text(sizeof header, '\0');
  std::size_t kept = 0;
  for (const std::uint64_t unique : {2U, 4U, 2U + 4096U, 8U}) {
    header.unique = unique;
    std::memcpy(text.data(), &header, sizeof header);
    ASSERT_EQ(send_message(other.get(), text, {}), 0);
    EXPECT_EQ(allocations_of(Threads::kThisOne,
                             [&] { table.receive(own.get(), buffer.data(), buffer.size()); }),
              0U);
    EXPECT_EQ(table.unanswered().size(), ++kept);
  }
  for (const std::uint64_t unique : {2U, 8U, 2U + 4096U, 4U}) {
    EXPECT_EQ(allocations_of(Threads::kThisOne, [&] { table.answered(unique); }), 0U);
    EXPECT_EQ(table.unanswered().size(), --kept);
  }
}

TEST(Requests, AreKeptByEachTableThatCanBeMade) {
  const auto [own, other] = message_sockets();
  std::vector<char> buffer(kRequestBytes);
  std::string text(sizeof(fuse_in_header), '\0');
  fuse_in_header header{};
  header.len = sizeof header;
  header.opcode = FUSE_GETATTR;
  std::memcpy(text.data(), &header, sizeof header);
  bool is_kept = true;
  with_each_failing(
      Threads::kThisOne,
      [&, device = own.get(), kernel = other.get()] {
        RequestTable table;
        is_kept = false;
        ::send(kernel, text.data(), text.size(), 0);
        table.receive(device, buffer.data(), buffer.size());
        is_kept = table.is_complete();
      },
      [&] { EXPECT_TRUE(is_kept); });
}

TEST(Log, HasALineAsItShouldBeOrAsItsFormat) {
  const std::string text(1000, 'x');
  int lines = 0;
  const test::RecordedLog log([&lines](auto, std::string_view) { ++lines; });
  with_each_failing(
      Threads::kThisOne, [&] { log_error(LogEvent::kMountFailed, "no {}", text); },
      [&] { EXPECT_EQ(std::exchange(lines, 0), 1); });
}

TEST(KernelCaches, AreToldOrTheLogIs) {
  int warnings = 0;
  const test::RecordedLog log([&warnings](auto, std::string_view) { ++warnings; });
  TreeBuilder builder;
  for (const char* const path : {"a/x", "a/y", "b/x"}) {
    builder.add_file(path, testing_vfs::file_of(1));
  }
  const auto tree = std::make_shared<const Tree>(std::move(builder).build());
  const TreeChange change{.names = names_of(*tree), .is_replaced = true};
  const auto [kernel, device] = message_sockets();
  const WakePipe events;
  bool has_begun = false;
  const auto tell = [&, fuse = device.get()] {
    KernelCaches caches;
    caches.start(fuse, change, tree, events);
    has_begun = true;
    while (events.wait() != Event::kToldKernel) continue;
    caches.stop(1h);
  };
  const auto count_messages = [from = kernel.get()] {
    std::array<char, 4096> message{};
    int count = 0;
    while (::recv(from, message.data(), message.size(), MSG_DONTWAIT) > 0) ++count;
    return count;
  };
  tell();
  const int all = count_messages();
  EXPECT_GT(all, 0);
  has_begun = false;
  with_each_failing(Threads::kAll, tell, [&] {
    const int told = count_messages();
    if (std::exchange(has_begun, false)) {
      EXPECT_EQ(warnings, told == all ? 0 : 1);
    }
    warnings = 0;
  });
}

TEST(HandedOver, IsWholeOrAsItWas) {
  const std::string before = "as it was";
  const std::string after(50'000, 's');
  MemoryRecord record;
  record.write(before);
  with_each_failing(
      Threads::kThisOne,
      [&] {
        record.write(after);
        record.read();
      },
      [&] {
        const std::string text = record.read();
        EXPECT_TRUE(text == before || text == after) << text.size();
        record.write(before);
        EXPECT_EQ(record.read(), before);
      });
}

}  // namespace
}  // namespace reshardfs::no_memory
