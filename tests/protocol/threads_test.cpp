// SPDX-License-Identifier: Apache-2.0
/// How many threads answer requests.
#include <condition_variable>
#include <mutex>
#include <vector>

#include "protocol/protocol_test.h"

namespace reshardfs::testing_protocol {
namespace {

using namespace std::chrono_literals;
using testing_mount::eventually;

/// Whoever asks for its tree while it is shut waits, as a thread waits that gets no processor.
class GatedTree : public TreeSource {
 public:
  std::shared_ptr<const Tree> current() const override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    opened_.wait(lock, [this] { return !shut_; });
    --waiting_;
    return tree_.current();
  }
  void set_shut(bool shut) {
    const std::lock_guard lock(mutex_);
    shut_ = shut;
    opened_.notify_all();
  }
  unsigned waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  TestTree tree_;
  mutable std::mutex mutex_;
  mutable std::condition_variable opened_;
  mutable unsigned waiting_ = 0;
  bool shut_ = false;
};

TEST(ProtocolThreads, AreFewForWhatIsAnsweredFromMemory) {
  GatedTree source;
  ProtocolSession session(source);
  session.init();
  FakeKernel& kernel = session.kernel();
  source.set_shut(true);
  for (unsigned i = 0; i < 4 * kMemoryThreads; ++i) kernel.send(FUSE_GETATTR, kRootInode);
  EXPECT_TRUE(eventually([&] { return source.waiting() == kMemoryThreads; }));
  EXPECT_EQ(session.next_event(), Event::kLive);
  EXPECT_EQ(session.next_event(50ms), std::nullopt) << "nothing happens meanwhile";
  EXPECT_EQ(source.waiting(), kMemoryThreads) << "more threads would not be quicker";
  source.set_shut(false);
  EXPECT_TRUE(kernel.settle());
  EXPECT_THAT(kernel.problems(), testing::IsEmpty());
}

TEST(ProtocolThreads, ThatWaitForStorageLeaveOthersForMemory) {
  StalledTree stalled;
  ProtocolSession session(stalled.source);
  session.init();
  FakeKernel& kernel = session.kernel();
  const std::uint64_t file = kernel.lookup(kRootInode, "stalled");
  const unsigned reads = kWaitLimits[static_cast<std::size_t>(WaitClass::kRead)].permits;
  static_assert(kWaitLimits[static_cast<std::size_t>(WaitClass::kRead)].permits > kMemoryThreads);
  // All at once: the threads that take them are not known to wait yet.
  std::vector<std::uint64_t> sent;
  for (unsigned i = 0; i < reads; ++i) {
    sent.push_back(kernel.send(FUSE_READ, file, read_body(0, 0, 100)));
  }
  EXPECT_EQ(kernel.call(FUSE_GETATTR, kRootInode).error, 0);
  stalled.shared->released = true;
  for (const std::uint64_t read : sent) EXPECT_EQ(kernel.wait_for(read)->body.size(), 100U);
  EXPECT_TRUE(session.stop());
  EXPECT_EQ(session.served().storage.threads_taken(), 0U);
  EXPECT_THAT(kernel.problems(), testing::IsEmpty());
}

}  // namespace
}  // namespace reshardfs::testing_protocol
