// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace reshardfs::python {

/// Threads that wait for storage in place of Python's, which must be free to take a Ctrl-C. They
/// are never joined: one may wait for ever.
class Workers {
 public:
  /// Those of this process, which are started as they are needed. The child of a fork has others.
  static Workers& process();

  /// Runs `work`, which must not throw, on some thread.
  /// @throws std::system_error if there is no thread, and none can be started.
  void submit(std::function<void()> work);

 private:
  void start_one();
  void run();

  std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;
};

}  // namespace reshardfs::python
