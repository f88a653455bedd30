// SPDX-License-Identifier: Apache-2.0
/// Threads that need not wait for reads that hang.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace reshardfs {

/// Thrown instead of waiting for a read that hangs, on threads that have a LeftReads::Scope. It is
/// no Error, because nothing has failed: the same work is to be done again.
struct StuckRead {
  /// Whether to do the work again now. May be called by any thread while the work and its sources
  /// exist; does not wait.
  std::shared_ptr<const std::function<bool()>> may_go_on;
};

/// The reads that a piece of work has left. Those that are made for it alone are found here when
/// the work is done again, so that it makes progress however long each of them takes. For one
/// thread at a time.
class LeftReads {
 public:
  /// While it exists, what this thread reads throws StuckRead if it hangs.
  class Scope {
   public:
    explicit Scope(LeftReads& left) noexcept;
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    LeftReads* const outer_;
  };

  /// Of this thread's innermost scope; nullptr: the thread waits.
  static LeftReads* of_thread() noexcept;

  /// What was read, of what.
  struct Key {
    const void* source = nullptr;
    std::uint64_t offset = 0;
    std::size_t size = 0;
    bool is_shared = false;  ///< it was asked for with others, and is to be read alone now
    bool operator==(const Key&) const = default;
  };

  /// @return nullptr if there is none.
  std::shared_ptr<void> find(const Key& key) const noexcept;
  /// @throws std::bad_alloc
  void keep(const Key& key, std::shared_ptr<void> read) {
    reads_.emplace_back(key, std::move(read));
  }
  /// For waits whose result cannot be kept.
  /// @return whether to leave once more; false after some times, so that the work ends.
  bool may_leave_again() noexcept {
    if (times_left_ == 0) return false;
    --times_left_;
    return true;
  }

 private:
  unsigned times_left_ = 3;
  std::vector<std::pair<Key, std::shared_ptr<void>>> reads_;
};

}  // namespace reshardfs
