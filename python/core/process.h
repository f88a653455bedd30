// SPDX-License-Identifier: Apache-2.0
/// A fork copies one thread: in the child, those that read for the others are gone, and a lock that
/// one of them held stays taken. So what was opened before a fork is of no use behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace reshardfs::python {

/// Notices forks from now on. To be called once, before the first ProcessMark.
void watch_forks();

/// The process in which it was made.
class ProcessMark {
 public:
  ProcessMark() noexcept;
  bool is_here() const noexcept;

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
