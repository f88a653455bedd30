// SPDX-License-Identifier: Apache-2.0
/// Which source a thread is reading, for another thread that looks after those that wait.
#pragma once

#include <atomic>
#include <cstdint>

namespace reshardfs {

class ByteSource;

/// What one thread is reading. The thread itself writes it, and others read it.
class SourceUse {
 public:
  struct Look {
    const ByteSource* source =
        nullptr;             ///< nullptr: none. For comparison only: it may no longer exist
    std::uint64_t step = 0;  ///< grows with each use that begins or ends
    bool operator==(const Look&) const = default;
  };

  /// Records in `use` what this thread reads, until the end of the scope.
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

/// Call this before reading a source or checking whether it has changed, and with nullptr when the
/// thread is done. Takes about a nanosecond, and no time if sources are not observed.
void now_using(const ByteSource* source) noexcept;

/// Call this from time to time in a thread that waits for a slow source that does answer, so that
/// the source does not count as stuck.
void still_using() noexcept;

}  // namespace reshardfs
