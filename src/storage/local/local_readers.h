// SPDX-License-Identifier: Apache-2.0
/// Threads that read slow files on mounted file systems, for which the kernel cannot request many
/// ranges without blocking.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "storage/byte_source.h"
#include "storage/local/file_system_speed.h"

namespace reshardfs {

/// A read of a file system that hangs may never return, and cannot be cancelled. So a read that
/// takes many times as long as others of its file system counts as stuck. It gives its place to
/// other reads, and its file is tried again from time to time by a single read, until it answers.
/// While any read is stuck, no file has more than a few reads in progress, so that each further
/// file that hangs blocks only a few threads. Reads of other file systems, and of files on the same
/// one that answer, continue.
///
/// Threads are started when they are needed, and end when they have been idle for a while. They are
/// detached, so that a stuck read does not keep the process from ending. Every member function may
/// be called from any number of threads at once.
class LocalReaders {
 public:
  using Clock = std::chrono::steady_clock;
  /// Must not throw.
  using Read = std::function<void()>;

  struct Limits {
    unsigned at_once = 64;
    unsigned of_file = 32;
    unsigned of_file_beside_stuck = 4;  ///< while any is stuck
    unsigned stuck_of_file = 32;
    unsigned stuck_of_file_system = 128;
    std::chrono::milliseconds probe_interval{500};  ///< of files that are stuck
    /// A read counts as stuck only after this time, and after eight times its usual duration.
    std::chrono::milliseconds patience{100};
  };

  /// A file that is read by these threads.
  class File;
  using FilePtr = std::shared_ptr<File>;
  static FilePtr file_of(std::shared_ptr<const FileSystemSpeed> file_system);

  explicit LocalReaders(const Limits& limits);
  LocalReaders(const LocalReaders&) = delete;
  LocalReaders& operator=(const LocalReaders&) = delete;
  ~LocalReaders();

  /// The process-wide instance. The child of a fork has its own.
  static LocalReaders& process();
  /// Whether process() was called. Then threads may run, and the process must end with _exit(2).
  static bool is_running() noexcept;

  /// Runs `read`, which reads the file, on one of the threads; on the calling thread if no other
  /// can be started.
  /// @param when kAhead: other reads go first.
  void submit(const FilePtr& file, Foresight when, Read read);

  /// Whether reads of the file are stuck.
  bool is_stuck(const FilePtr& file) const;

  struct Figures {
    std::uint64_t reads = 0;  ///< that have begun
    std::uint64_t in_flight = 0;
    std::uint64_t stuck = 0;  ///< of those
  };
  Figures figures() const;

 private:
  struct Task;
  using Tasks = std::list<Task>;
  struct State;
  std::shared_ptr<State> state_;  ///< kept by the threads, too
};

}  // namespace reshardfs
