// SPDX-License-Identifier: Apache-2.0
/// State of the whole process, and what a fork does to it.
///
/// A fork copies one thread. In the child a mutex that another thread held stays locked, a
/// condition variable counts waiters that are not there, and threads and requests are gone. So
/// everything of the process that has one of these is a ProcessState. All of them stand in one
/// list; after a fork the child makes each anew when it first needs it. The parent's objects stay
/// in the child's memory, untouched: nothing can be said of what another thread was doing with
/// them, and to destroy a condition variable is to wait for its waiters.
///
/// State that has to survive a fork, such as settings, is read and written under a ForkLock, or
/// written under one before any thread reads it: then no fork happens in the middle of a write.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/engine.h"

namespace reshardfs {

/// While a thread has one, no other thread forks, has one, or makes a ProcessState. For moments
/// only: never for the time of a read from a disk or a server. A thread may have several.
class ForkLock {
 public:
  RESHARDFS_ENGINE ForkLock() noexcept;
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;
  RESHARDFS_ENGINE ~ForkLock();
};

/// Grows by one in the child of each fork: two values that differ are of two processes.
RESHARDFS_ENGINE std::uint64_t process_generation() noexcept;

/// What the list holds.
class ProcessStateEntry {
 public:
  ProcessStateEntry(const ProcessStateEntry&) = delete;
  ProcessStateEntry& operator=(const ProcessStateEntry&) = delete;

  /// The names of all entries of the list, for tests.
  static std::vector<std::string> names();

 protected:
  /// In the child of a fork: must not allocate, lock or wait. (No virtual function: those need a
  /// destructor, which would run while threads still use the entry.)
  using BeginAnew = void (*)(ProcessStateEntry& entry);

  /// @param name of a string literal.
  RESHARDFS_ENGINE ProcessStateEntry(const char* name, BeginAnew begin_anew) noexcept;
  ~ProcessStateEntry() = default;

 private:
  friend struct ForkHandlers;

  const char* const name_;
  const BeginAnew begin_anew_;
  ProcessStateEntry* const next_;
};

/// An object of this process, made when it is first asked for and never destroyed. To be defined at
/// namespace scope: the guard of a static in a function is a lock that a fork copies, too.
template <typename T>
class ProcessState final : private ProcessStateEntry {
 public:
  /// Makes the object; with a ForkLock, so it must not wait for long.
  /// @param before that of the process before a fork, which another thread of it may have been
  ///        changing: only what is atomic or never changes may be read. nullptr: there is none.
  using Make = T* (*)(const T* before);
  /// Closes, in the child, descriptors of the parent's object; must not allocate, lock or wait.
  using Leave = void (*)(T& before);

  ProcessState(const char* name, Make make, Leave leave = nullptr) noexcept
      : ProcessStateEntry(name, begin_anew), make_(make), leave_(leave) {}

  /// @throws what making it throws.
  T& get() {
    T* const found = object_.load(std::memory_order_acquire);
    return found != nullptr ? *found : make_it();
  }
  /// The object if this process has made it, otherwise nullptr.
  T* made() const noexcept { return object_.load(std::memory_order_acquire); }

 private:
  T& make_it() {
    const ForkLock lock;
    T* found = object_.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = make_(before_);
      object_.store(found, std::memory_order_release);
    }
    return *found;
  }

  static void begin_anew(ProcessStateEntry& entry) {
    auto& own = static_cast<ProcessState&>(entry);
    T* const mine = own.object_.exchange(nullptr);
    if (mine == nullptr) return;
    own.before_ = mine;
    if (own.leave_ != nullptr) own.leave_(*mine);
  }

  const Make make_;
  const Leave leave_;
  std::atomic<T*> object_ = nullptr;
  const T* before_ = nullptr;  ///< written in the child of a fork, when it has one thread
};

/// Makes an object that needs nothing of the one before: ProcessState<T> x("...", make_new<T>).
template <typename T>
T* make_new(const T* /*before*/) {
  return new T();
}

/// A value of the whole process that survives a fork. Any thread may use it at any time.
template <typename T>
class AcrossForks {
 public:
  T get() const {
    const ForkLock lock;
    return value_;
  }
  void set(T value) {
    const ForkLock lock;
    std::swap(value_, value);  // the former one is destroyed without the lock
  }

 private:
  T value_{};
};

}  // namespace reshardfs
