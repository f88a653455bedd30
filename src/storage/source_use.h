// SPDX-License-Identifier: Apache-2.0
/// Which source a thread is reading, for another thread that looks after those that wait.
#pragma once

#include <atomic>
#include <cstdint>

namespace reshardfs {

class ByteSource;

/// What one thread has told of its reading. Written by that thread, looked at by others.
class SourceUse {
 public:
  struct Look {
    const ByteSource* source = nullptr;  ///< nullptr: none. Only to be compared: it may be gone
    std::uint64_t step = 0;              ///< grows with each use that begins or ends
    bool operator==(const Look&) const = default;
  };

  /// Lets this thread tell `use` what it reads, until the end of the scope.
  class Scope {
   public:
    explicit Scope(SourceUse& use) noexcept;
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    SourceUse* const outer_;
  };

  Look look() const noexcept {
    return {source_.load(std::memory_order_relaxed), step_.load(std::memory_order_relaxed)};
  }

 private:
  friend void now_using(const ByteSource* source) noexcept;
  friend void still_using() noexcept;
  void next_step() noexcept;

  std::atomic<const ByteSource*> source_ = nullptr;
  std::atomic<std::uint64_t> step_ = 0;
};

/// To be called before a source is read, or asked whether it has changed, and with nullptr when the
/// thread has what it wanted. Costs a nanosecond, and nothing where nobody looks.
void now_using(const ByteSource* source) noexcept;

/// To be called now and then by a thread that waits for a source which answers, however late: it is
/// not to be taken for one that hangs.
void still_using() noexcept;

}  // namespace reshardfs
