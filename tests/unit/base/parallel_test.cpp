// SPDX-License-Identifier: Apache-2.0
#include "base/process/parallel.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/process/fault_report.h"
#include "base/process/interrupted.h"
#include "support/no_threads.h"

namespace reshardfs {
namespace {

TEST(ParallelFor, CallsEachIndexOnce) {
  for (const std::size_t threads : {0U, 1U, 3U}) {
    std::vector<std::atomic<int>> calls(1000);
    parallel_for(
        calls.size(), [&](std::size_t i) { ++calls[i]; }, threads);
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
  parallel_for(0, [](std::size_t) { FAIL(); });
}

TEST(ParallelFor, ThrowsTheFailureOfTheLowestIndex) {
  for (int round = 0; round < 50; ++round) {
    try {
      parallel_for(100, [](std::size_t i) {
        if (i % 10 == 7) throw std::runtime_error(std::to_string(i));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "7");
    }
  }
}

TEST(ParallelFor, BeginsNoCallAfterAnInterrupted) {
  std::atomic<std::size_t> calls{0};
  EXPECT_THROW(parallel_for(
                   1000,
                   [&](std::size_t i) {
                     ++calls;
                     if (i == 0) throw Interrupted();
                   },
                   1),
               Interrupted);
  EXPECT_EQ(calls, 1U);
}

std::string& reported() {
  static std::string text;
  return text;
}

TEST(ParallelFor, DoesTheWorkWhereNoThreadCanBeStarted) {
  set_fault_listener(
      [](LogEvent, const std::string&, const std::string& text) { reported() = text; });
  std::vector<std::atomic<int>> calls(100);
  {
    const NoThreads none;
    parallel_for(
        calls.size(), [&](std::size_t i) { ++calls[i]; }, 8);
  }
  set_fault_listener(nullptr);
  for (const auto& count : calls) EXPECT_EQ(count, 1);
  EXPECT_NE(reported().find("on 1 thread alone"), std::string::npos) << reported();
  EXPECT_NE(reported().find("Resource temporarily unavailable"), std::string::npos) << reported();
}

}  // namespace
}  // namespace reshardfs
