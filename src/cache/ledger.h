// SPDX-License-Identifier: Apache-2.0
/// How many bytes a cache holds: a number in a small file that all processes share.
#pragma once

#include <cstdint>

#include "base/posix/descriptor.h"

namespace reshardfs {

/// The number is never too low, as then the cache would outgrow its bound. A process that is killed
/// leaves it too high; it is right again after the next recount.
struct Balance {
  bool known = false;         ///< if not, all must be recounted before anything is added
  std::uint64_t held = 0;     ///< bytes
  std::uint64_t added = 0;    ///< all bytes that were ever added
  std::uint64_t recount = 0;  ///< which one was the last: a random number
};

/// Bytes on disk of a file with this size.
std::uint64_t occupied(std::uint64_t size) noexcept;

class Ledger {
 public:
  explicit Ledger(Descriptor file) noexcept;

  /// Takes no lock: the balance may be out of date. Unknown if it was written before the machine
  /// last started, because a crash may have lost what was not on disk yet.
  Balance read() const noexcept;
  /// To be called with the lock held. @return 0, or the error number.
  int write(const Balance& balance) noexcept;

  /// The file to lock.
  int descriptor() const noexcept { return file_.get(); }
  /// Whether the file was removed, so that other processes use another one.
  bool is_removed() const noexcept;

 private:
  Descriptor file_;
  std::uint64_t boot_;  ///< stands for this run of the machine
};

/// A random number, for values that must be unique.
std::uint64_t random_number() noexcept;

}  // namespace reshardfs
