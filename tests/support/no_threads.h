// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <cstddef>
#include <stdexcept>

namespace reshardfs {

/// While it lives, no thread can be started: each is to get a stack of a size that has no place, as
/// that of a thread of a process whose memory is limited.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t huge{};
    const bool good = ::pthread_getattr_default_np(&usual_) == 0 &&
                      ::pthread_attr_init(&huge) == 0 &&
                      ::pthread_attr_setstacksize(&huge, std::size_t{1} << 47U) == 0 &&
                      ::pthread_setattr_default_np(&huge) == 0;
    if (!good) throw std::runtime_error("cannot choose the size of stacks");
    ::pthread_attr_destroy(&huge);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  ~NoThreads() {
    ::pthread_setattr_default_np(&usual_);
    ::pthread_attr_destroy(&usual_);
  }

 private:
  pthread_attr_t usual_{};
};

}  // namespace reshardfs
