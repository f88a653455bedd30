// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "conformance/place.h"
#include "support/errors.h"

namespace reshardfs::conformance {
namespace {

using test::expect_error;

/// Runs a command that the test was given.
void run(const std::string& command) {
  ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT(concurrency-mt-unsafe)
}

/// Reads a range as it was when the source was opened, or finds out that it has changed.
/// @return whether it is as it was.
bool reads_as_before(const ByteSource& source, std::uint64_t offset, std::size_t count,
                     unsigned salt) {
  std::vector<std::byte> out(count);
  try {
    source.read_at(offset, out);
    source.check_unchanged();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kChanged) << error.what();
    return false;
  }
  EXPECT_TRUE(are_bytes_of(out, offset, salt)) << count << " bytes at " << offset;
  return true;
}

/// What was not read yet of a source that is another one now: kChanged, whatever is asked for.
void expect_changed(const ByteSource& source, unsigned salt) {
  bool good = true;
  for (std::uint64_t left = kLargeBytes / 200'000; good && left > 0; --left) {
    good = reads_as_before(source, (left - 1) * 200'000, 200'000, salt);
  }
  EXPECT_FALSE(good) << "all of it was read, as if nothing had happened";
  expect_error(ErrorKind::kChanged, {}, [&] { source.check_unchanged(); });
  EXPECT_FALSE(reads_as_before(source, 0, kLargeBytes, salt));
  EXPECT_FALSE(reads_as_before(source, 0, 10, salt));
}

TEST(Conformance, AnotherVersionIsNeverMixedIn) {
  if (place().change.empty()) GTEST_SKIP() << "no --change";
  const ByteSourcePtr quiet = open("changing");
  const ByteSourcePtr ahead = open("changing");
  const ByteSourcePtr busy = open("changing");
  const SourceTreePtr tree = tree_of(place().root);
  tree->list(place().root);
  const ByteSourcePtr unread = tree->open_source(place().root / "changing");
  expect_bytes(*quiet, 0, 100, kBefore);
  std::atomic<unsigned> reads = 0;
  std::atomic<bool> at_end = false;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      std::minstd_rand random(i + 1);
      ByteSourcePtr source = busy;
      while (!at_end) {
        const std::uint64_t offset = random() % (kLargeBytes - 1000);
        const bool good = reads_as_before(*source, offset, 1000, kBefore);
        ++reads;
        if (!good) return;
      }
    });
  }
  while (reads < 50) std::this_thread::yield();
  ahead->foresee(std::vector<ByteRange>{ByteRange::whole(kLargeBytes)}, Foresight::kAhead);
  run(place().change);
  expect_changed(*quiet, kBefore);
  expect_changed(*unread, kBefore);
  reads_as_before(*ahead, 0, kLargeBytes, kBefore);
  at_end = true;
  for (std::thread& thread : threads) thread.join();

  const ByteSourcePtr fresh = open("changing");
  EXPECT_EQ(fresh->size(), kLargeBytes);
  expect_bytes(*fresh, 0, kLargeBytes, kAfter);
}

TEST(Conformance, WhatIsRemovedHasChanged) {
  if (place().remove.empty()) GTEST_SKIP() << "no --remove";
  const ByteSourcePtr source = open("removed");
  expect_bytes(*source, 0, 100, kRemoved);
  run(place().remove);
  // A file of this machine that is open stays what it is.
  if (source->is_remote()) {
    expect_changed(*source, kRemoved);
  } else {
    reads_as_before(*source, 0, kLargeBytes, kRemoved);
  }
  expect_error(ErrorKind::kMissing, {}, [] { open("removed"); });
}

}  // namespace
}  // namespace reshardfs::conformance
