// SPDX-License-Identifier: Apache-2.0
/// A fork copies one thread: in the child, those that read for the others are gone, and a lock that
/// one of them held stays taken. So what was opened before a fork is of no use behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/process/process_state.h"

namespace reshardfs::python {

/// The process in which it was made.
class ProcessMark {
 public:
  ProcessMark() noexcept : generation_(process_generation()) {}
  bool is_here() const noexcept { return generation_ == process_generation(); }

 private:
  std::uint64_t generation_;
};

/// Shared, and never destroyed in another process than this one: destructors may wait for threads.
template <typename T>
std::shared_ptr<T> kept_here(T value) {
  return {new T(std::move(value)), [mark = ProcessMark()](T* object) {
            if (mark.is_here()) delete object;
          }};
}

}  // namespace reshardfs::python
