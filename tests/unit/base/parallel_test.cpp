// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace reshardfs
