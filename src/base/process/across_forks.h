// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "base/process/process_state.h"

namespace reshardfs {

/// A value of the whole process that survives a fork: see process_state.h. Any thread may use it at
/// any time.
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
