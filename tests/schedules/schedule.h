// SPDX-License-Identifier: Apache-2.0
/// Runs threads one at a time, in an order that follows from a number: whoever locks or unlocks a
/// mutex, waits for a condition variable or notifies one, starts, joins or ends may have to give
/// way to any other thread that can go on. What is tested is the code of the product as it is: the
/// linker replaces what it calls of the C++ library and of pthreads (CMakeLists.txt lists that).
///
/// Time stands still while any thread can go on. If none can, it becomes what the first of those
/// wait for who wait for a time. So a wait that is rescued by its time limit is seen.
#pragma once

#include <cstdint>
#include <functional>

namespace reshardfs::schedules {

struct Options {
  std::uint64_t seed = 0;
  /// Of so many calls that notify, one is lost; 0: none. A bug that the tests must find.
  std::uint64_t lost_notifications = 0;
};

struct Outcome {
  std::uint64_t steps = 0;  ///< at which another thread could go on
  /// Waits that ended by their time while that was not allowed, or by chance.
  std::uint64_t rescued = 0;
};

/// Runs `work` in a thread, with all threads that it and they start, until all have ended. Ends the
/// process, with a line that has the seed, if nothing helps any thread to go on. One schedule at a
/// time.
Outcome run(const Options& options, const std::function<void()>& work);

/// From now on waits may end by their time: what must happen without that has happened.
void allow_time() noexcept;

/// A number below `bound`, which is another one for another seed. In a thread of a schedule.
std::uint64_t random_below(std::uint64_t bound) noexcept;

/// Calls check(options) for many seeds: for as many as RESHARDFS_SCHEDULES says, or only for
/// RESHARDFS_SCHEDULE_SEED.
void for_each_seed(std::uint64_t count, const std::function<void(const Options&)>& check);

}  // namespace reshardfs::schedules
