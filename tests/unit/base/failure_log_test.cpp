// SPDX-License-Identifier: Apache-2.0
#include "base/process/failure_log.h"

#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

class FailureLogTest : public testing::Test {
 protected:
  void fail(const std::string& file, const std::string& cause, const std::string& line) {
    log->add(
        {.event = LogEvent::kRequestFailed, .file = file, .cause = cause, .line = line},
        [this] { return fields; }, now);
  }

  std::vector<std::string> lines;
  LogFields fields;
  std::unique_ptr<FailureLog> log =
      std::make_unique<FailureLog>([this](const std::string& line) { lines.push_back(line); });
  FailureLog::Clock::time_point now{1h};
};

TEST_F(FailureLogTest, ReportsEachFileAndCauseOnce) {
  for (int i = 0; i < 1000; ++i) {
    fail("a", "gone", "a is gone");
    fail("a", "damaged", "a is damaged");
    fail("b", "gone", "b is gone");
  }
  EXPECT_THAT(lines, ElementsAre("a is gone", "a is damaged", "b is gone"));
}

TEST_F(FailureLogTest, ReportsHowOftenItCameAgainOnceAMinute) {
  for (int i = 0; i < 5; ++i) fail("a", "gone", "a is gone: " + std::to_string(i));
  now += FailureLog::kInterval;
  fail("a", "gone", "a is gone: 5");
  now += 1s;
  fail("a", "gone", "a is gone: 6");
  EXPECT_THAT(lines, ElementsAre("a is gone: 0", "a is gone: 5 (this came 5 times more)"));
  log.reset();
  EXPECT_EQ(lines.back(), "a is gone: 6 (this came once more)");
}

TEST_F(FailureLogTest, SaysNothingAtTheEndOfWhatCameOnce) {
  fail("a", "gone", "a is gone");
  log.reset();
  EXPECT_THAT(lines, ElementsAre("a is gone"));
}

TEST_F(FailureLogTest, CountsTogetherWhatIsTooMuchToTellApart) {
  for (std::size_t i = 0; i < 2 * FailureLog::kMaxKinds; ++i) {
    const std::string file = std::to_string(i);
    fail(file, "gone", file + " is gone");
  }
  EXPECT_EQ(lines.size(), FailureLog::kMaxKinds + 1);
  log->tell_counts();
  EXPECT_EQ(lines.size(), FailureLog::kMaxKinds + 2);
  EXPECT_THAT(lines.back(), testing::EndsWith("(this came 999 times more)"));
}

TEST(FailureLogFields, AreThoseOfTheFailureThatIsReported) {
  std::vector<LogFields> told;
  unsigned asked = 0;
  FailureLog log([&](const std::string&) {
    ASSERT_NE(LogScope::current(), nullptr);
    EXPECT_EQ(LogScope::current()->event(), LogEvent::kCacheFailed);
    told.push_back(LogScope::current()->fields());
  });
  FailureLog::Clock::time_point now{1h};
  const auto fail = [&](pid_t client) {
    log.add(
        {.event = LogEvent::kCacheFailed, .file = "a", .cause = "c", .line = "l"},
        [&] {
          ++asked;
          return LogFields{.file = "a", .client_pid = client, .duration = 5ms};
        },
        now);
  };
  fail(1);
  fail(2);
  fail(3);
  now += FailureLog::kInterval;
  fail(4);
  EXPECT_EQ(asked, 2U) << "what is not reported costs nothing";
  fail(5);
  log.tell_counts();
  EXPECT_EQ(asked, 2U);
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0].client_pid, 1);
  EXPECT_EQ(told[0].repeated, 0U);
  EXPECT_EQ(told[1].client_pid, 4);
  EXPECT_EQ(told[1].repeated, 3U);
  // Of whom the last one was is not known.
  EXPECT_EQ(told[2].client_pid, 0);
  EXPECT_FALSE(told[2].duration);
  EXPECT_EQ(told[2].file, "a");
  EXPECT_EQ(told[2].repeated, 1U);
  EXPECT_EQ(LogScope::current(), nullptr);
}

}  // namespace
}  // namespace reshardfs
