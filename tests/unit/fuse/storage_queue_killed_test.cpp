// SPDX-License-Identifier: Apache-2.0
/// What becomes of work for programs that are killed.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "unit/fuse/fake_kernel.h"
#include "unit/fuse/storage_queue_fixture.h"

namespace reshardfs::test {
namespace {

class KilledPrograms : public StorageQueueTest {
 protected:
  KilledPrograms() {
    session.connect(kernel.device());
    kernel.ask(FUSE_INIT, 0, FakeKernel::init());
    session.process_one();
    EXPECT_EQ(kernel.answer().error, 0);
    killed = false;
    looks = 0;
  }

  /// A request of a program whose work holds something. @return that.
  std::weak_ptr<int> ask() {
    held_ = std::make_shared<int>();
    const std::weak_ptr<int> watched = held_;
    kernel.ask(FUSE_GETATTR, 1, bytes_of(fuse_getattr_in{}));
    session.process_one();
    return watched;
  }
  void tick() { queue.tick(now); }

  static inline std::atomic<bool> killed;
  static inline std::atomic<int> looks;  ///< whether the program has been killed
  FakeKernel kernel;

 private:
  static fuse_lowlevel_ops operations() {
    fuse_lowlevel_ops all{};
    all.getattr = getattr;
    return all;
  }
  /// Work that meets a read that stays stuck.
  static void getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
    auto& self = *static_cast<KilledPrograms*>(fuse_req_userdata(request));
    const auto is_killed = [](pid_t) noexcept {
      ++looks;
      return killed.load();
    };
    self.queue.submit(
        KillableRequest::watch(request, is_killed, {.inode = node, .operation = "getattr"}),
        WaitClass::kRead, 0, [held = std::exchange(self.held_, nullptr)]() -> Reply {
          throw StuckRead{std::make_shared<const std::function<bool()>>([] { return false; })};
        });
  }
  const fuse_lowlevel_ops operations_ = operations();
  std::shared_ptr<int> held_;

 protected:
  BareSession session{operations_, this};
};

TEST_F(KilledPrograms, LeaveNothingOfWhatIsStuckOrWaitsForItsTurn) {
  for (const bool has_turn : {true, false}) {
    if (!has_turn) {
      for (unsigned i = 0; i < kLimits(WaitClass::kRead).permits; ++i) start();
    }
    killed = true;
    looks = 0;
    const std::weak_ptr<int> held = ask();
    tick();
    EXPECT_EQ(looks, 0) << "most work ends before anybody can be killed";
    EXPECT_FALSE(held.expired());
    tick();
    EXPECT_EQ(looks, 1);
    EXPECT_EQ(kernel.answer().error, EINTR);
    EXPECT_TRUE(held.expired()) << "it may be the last to hold a source";
  }
  let_all_go();
}

TEST_F(KilledPrograms, NeedNoTickWhereTheKernelTellsOfTheSignal) {
  for (const bool is_killed : {false, true}) {
    killed = is_killed;
    fuse_interrupt_in interrupt{};
    interrupt.unique = kernel.next_unique();
    ask();
    kernel.ask(FUSE_INTERRUPT, 0, bytes_of(interrupt));
    session.process_one();
    ASSERT_EQ(kernel.has_answer(), is_killed) << "other signals end no request";
  }
  EXPECT_EQ(kernel.answer().error, EINTR);
  tick();
  tick();
  EXPECT_EQ(kernel.answer().error, EINTR) << "of the first";
}

TEST_F(KilledPrograms, AreLookedForAtEachTick) {
  const std::weak_ptr<int> held = ask();
  for (int tick_number = 0; tick_number < 4; ++tick_number) {
    EXPECT_EQ(looks, std::max(0, tick_number - 1));
    tick();
  }
  EXPECT_FALSE(held.expired());
  killed = true;
  tick();
  EXPECT_EQ(kernel.answer().error, EINTR);
}

}  // namespace
}  // namespace reshardfs::test
