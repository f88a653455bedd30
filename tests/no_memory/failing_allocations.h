// SPDX-License-Identifier: Apache-2.0
/// Runs an operation again and again, each time with another allocation failing, until none does.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <string>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

namespace reshardfs::no_memory {

/// Whose allocations fail.
enum class Threads { kThisOne, kAll };
/// One allocation, or that one and all that follow.
enum class Lasting { kOne, kFromThenOn };

/// While it lives, operator new fails as it is told. One at a time.
class FailingAllocation {
 public:
  FailingAllocation(std::size_t number, Threads threads, Lasting lasting) noexcept;
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
  ~FailingAllocation();
  /// Whether there were so many allocations.
  bool has_failed() const noexcept;
  /// How many there were since it began.
  static std::size_t count() noexcept;
};

/// @return how many allocations an operation makes.
inline std::size_t allocations_of(Threads threads, const std::function<void()>& operation) {
  const FailingAllocation none(std::numeric_limits<long>::max(), threads, Lasting::kOne);
  operation();
  return FailingAllocation::count();
}

/// @param operation is run with its allocation number 0, 1, 2, ... failing. It must end, either as
///        if nothing had been or with std::bad_alloc or an Error, and must use no macro of
///        GoogleTest: those allocate.
/// @param check runs after each time, with all the memory there is: what was used must be usable.
/// @param stride 2: every other one fails in turn. Where one lasts, those between have their turn.
/// @return for how many allocations it was run.
inline std::size_t with_each_failing(Threads threads, const std::function<void()>& operation,
                                     const std::function<void()>& check, std::size_t stride = 1) {
  std::size_t runs = 0;
  for (const Lasting lasting : {Lasting::kOne, Lasting::kFromThenOn}) {
    for (std::size_t number = lasting == Lasting::kOne ? 0 : stride / 2;; number += stride) {
      SCOPED_TRACE("allocation " + std::to_string(number) +
                   (lasting == Lasting::kOne ? "" : " and all that follow"));
      std::string unexpected;
      bool failed = false;
      std::exception_ptr thrown;
      {
        const FailingAllocation failing(number, threads, lasting);
        try {
          operation();
        } catch (...) {
          thrown = std::current_exception();
        }
        failed = failing.has_failed();
      }
      if (thrown != nullptr) {
        try {
          std::rethrow_exception(thrown);
        } catch (const std::bad_alloc&) {
        } catch (const Error& error) {
          unexpected = error.kind() == ErrorKind::kIo ? "" : error.what();
        } catch (const std::exception& error) {
          unexpected = error.what();
        }
      }
      EXPECT_EQ(unexpected, "");
      EXPECT_TRUE(failed || thrown == nullptr) << "it fails although there is memory";
      check();
      ++runs;
      if (!failed || testing::Test::HasFailure()) break;
    }
  }
  return runs;
}

}  // namespace reshardfs::no_memory
