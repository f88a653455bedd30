// SPDX-License-Identifier: Apache-2.0
#include "base/process/process_state.h"

#include <pthread.h>

#include <algorithm>

namespace reshardfs {
namespace {

// Constants at the start: entries in other files may register before this file's turn comes.
constinit pthread_mutex_t fork_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
constinit ProcessStateEntry* first_entry = nullptr;  // guarded by fork_mutex
constinit std::atomic<std::uint64_t> generation = 0;

}  // namespace

struct ForkHandlers {
  static void before_fork() { ::pthread_mutex_lock(&fork_mutex); }
  static void in_parent() { ::pthread_mutex_unlock(&fork_mutex); }
  static void in_child() {
    // Its owner was a thread of the parent, as which this one cannot unlock it: that fails, but the
    // thread sanitizer knows then that nobody has it.
    ::pthread_mutex_unlock(&fork_mutex);
    fork_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    generation.fetch_add(1, std::memory_order_relaxed);
    for (ProcessStateEntry* entry = first_entry; entry != nullptr; entry = entry->next_) {
      entry->begin_anew_(*entry);
    }
  }

  static ProcessStateEntry* add(ProcessStateEntry* entry) noexcept {
    const ForkLock lock;
    ProcessStateEntry* const next = first_entry;
    if (next == nullptr) ::pthread_atfork(before_fork, in_parent, in_child);
    first_entry = entry;
    return next;
  }
  static std::vector<std::string> names() {
    std::vector<std::string> all;
    const ForkLock lock;
    for (const ProcessStateEntry* entry = first_entry; entry != nullptr; entry = entry->next_) {
      all.emplace_back(entry->name_);
    }
    std::sort(all.begin(), all.end());
    return all;
  }
};

ForkLock::ForkLock() noexcept {
  ::pthread_mutex_lock(&fork_mutex);
}

ForkLock::~ForkLock() {
  ::pthread_mutex_unlock(&fork_mutex);
}

std::uint64_t process_generation() noexcept {
  return generation.load(std::memory_order_relaxed);
}

ProcessStateEntry::ProcessStateEntry(const char* name, BeginAnew begin_anew) noexcept
    : name_(name), begin_anew_(begin_anew), next_(ForkHandlers::add(this)) {}

std::vector<std::string> ProcessStateEntry::names() {
  return ForkHandlers::names();
}

}  // namespace reshardfs
