// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/bounded_task.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

BoundedTask::Clock::time_point later() {
  return BoundedTask::Clock::now() + 30s;
}

TEST(BoundedTask, HasAResult) {
  const std::string large(1 << 20, 'x');
  BoundedTask good([&] { return TaskResult{0, large}; });
  BoundedTask bad([] { return TaskResult{ENOTCONN, ""}; });
  BoundedTask thrown([]() -> TaskResult { throw io_error("read", "f", EISDIR); });
  EXPECT_EQ(good.wait_until(later())->text, large);
  EXPECT_EQ(bad.wait_until(later())->error, ENOTCONN);
  EXPECT_EQ(thrown.wait_until(later())->error, EISDIR);
}

TEST(BoundedTask, HoldsNothingThatItsParentHasOpen) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  {
    // One that never ends, as long as nobody ends it.
    const BoundedTask task([] {
      ::pause();
      return TaskResult{};
    });
    ::close(ends[1]);
    // The end of what the task could write: it is there as soon as nobody holds the other end.
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 0);
  }
  ::close(ends[0]);
}

TEST(BoundedTask, HasStandardStreamsThatLeadNowhere) {
  BoundedTask task([] {
    std::string text;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      const std::string target = fs::read_symlink(entry.path(), ignored).string();
      if (target.starts_with("/proc/")) continue;  // of this list
      text += target.substr(0, target.find(':')) + " ";
    }
    return TaskResult{0, text};
  });
  EXPECT_EQ(task.wait_until(later())->text, "/dev/null /dev/null /dev/null pipe ");
}

TEST(BoundedTask, GivesUpWhenTheTimeIsOver) {
  BoundedTask task([] {
    ::pause();
    return TaskResult{};
  });
  EXPECT_FALSE(task.wait_until(BoundedTask::Clock::now() + 10ms));
}

}  // namespace
}  // namespace reshardfs
