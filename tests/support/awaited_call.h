// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>
#include <thread>

namespace reshardfs::test {

/// Returns when a thread of this process waits in a system call of this number, or has ended.
inline void wait_until_in_call(pid_t thread, long number) {
  for (;; std::this_thread::yield()) {
    std::ifstream call("/proc/self/task/" + std::to_string(thread) + "/syscall");
    long its = -1;
    if (!call || (call >> its && its == number)) return;
  }
}

}  // namespace reshardfs::test
