// SPDX-License-Identifier: Apache-2.0
#include "fuse/event_log.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/recorded_log.h"

namespace reshardfs {
namespace {

using testing::ElementsAre;

struct EventLogTest : testing::Test {
  std::vector<std::string> lines;
  int flushes = 0;
  test::RecordedLog log{[this](spdlog::level::level_enum level, std::string_view line) {
                          ASSERT_NE(LogScope::current(), nullptr);
                          const auto name = spdlog::level::to_string_view(level);
                          lines.push_back(std::string(name.data(), name.size()) + " " +
                                          std::string(name_of(LogScope::current()->event())) +
                                          ": " + std::string(line));
                        },
                        [this] { ++flushes; }};
};

TEST_F(EventLogTest, LinesHaveTheirLevelAndTheirEvent) {
  log_event(LogLevel::kDebug, LogEvent::kMessage, "{}", 1);
  log_info(LogEvent::kMounted, "at {}", "/mnt");
  log_warning(LogEvent::kStepRefused, "{} {}", "a", "b");
  log_error(LogEvent::kMountFailed, "no {{}}");
  EXPECT_THAT(lines, ElementsAre("debug message: 1", "info mounted: at /mnt",
                                 "warning step_refused: a b", "error mount_failed: no {}"));
}

TEST_F(EventLogTest, IsFlushedWhenItIsToldTo) {
  log_info(LogEvent::kMounted, "at {}", "/mnt");
  const int before = flushes;
  flush_log();
  EXPECT_EQ(flushes, before + 1);
}

TEST_F(EventLogTest, SaysNothingOnceItIsSilenced) {
  const spdlog::level::level_enum before = spdlog::get_level();
  silence_log();
  log_error(LogEvent::kMountFailed, "x");
  EXPECT_THAT(lines, testing::IsEmpty());
  spdlog::set_level(before);
}

}  // namespace
}  // namespace reshardfs
