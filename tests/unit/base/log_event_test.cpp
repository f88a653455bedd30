// SPDX-License-Identifier: Apache-2.0
#include "base/process/log_event.h"

#include <cerrno>
#include <regex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(LogEvent, NamesAreDistinctWordsWithUnderscores) {
  std::set<std::string_view> names;
  const std::regex word("[a-z]+(_[a-z]+)*");
  for (const std::string_view name : kLogEventNames) {
    EXPECT_TRUE(std::regex_match(name.begin(), name.end(), word)) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(name_of(LogEvent::kMessage), "message");
  EXPECT_EQ(name_of(LogEvent::kRequestFailed), "request_failed");
  EXPECT_EQ(name_of(LogEvent::kLogNotReopened), "log_not_reopened");
}

TEST(LogScope, HoldsForItsThreadWhileItLives) {
  EXPECT_EQ(LogScope::current(), nullptr);
  {
    const LogScope outer(LogEvent::kMountFailed, {.file = "f", .error = EIO});
    EXPECT_EQ(LogScope::current(), &outer);
    std::thread([] { EXPECT_EQ(LogScope::current(), nullptr); }).join();
    {
      const LogScope same(LogEvent::kMounted);
      EXPECT_EQ(LogScope::current()->event(), LogEvent::kMounted);
      EXPECT_EQ(LogScope::current()->fields().file, "f");
      const LogScope own(LogEvent::kMounted, {.file = "g"});
      EXPECT_EQ(LogScope::current()->fields().file, "g");
      EXPECT_EQ(LogScope::current()->fields().error, 0);
    }
    EXPECT_EQ(LogScope::current(), &outer);
  }
  EXPECT_EQ(LogScope::current(), nullptr);
}

TEST(ErrnoName, IsTheConstantsNameOrTheNumber) {
  EXPECT_EQ(errno_name(EIO), "EIO");
  EXPECT_EQ(errno_name(ESTALE), "ESTALE");
  EXPECT_EQ(errno_name(4711), "errno 4711");
}

}  // namespace
}  // namespace reshardfs
