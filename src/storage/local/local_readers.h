// SPDX-License-Identifier: Apache-2.0
/// Threads that read slow files of this machine's file systems: for those the kernel has no way to
/// ask for many ranges at once, and to go on meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "storage/byte_source.h"
#include "storage/local/file_system_speed.h"

namespace reshardfs {

/// A read of a file system that hangs may never return, and nobody can break it off. So a read that
/// takes many times as long as others of its file system counts as stuck: it gives its place to
/// others, and its file is tried by one read now and then, until it answers. While any read is
/// stuck, no file has more than a few under way, so that each further one that hangs takes a few
/// threads only. Files of other file systems, and those of the same that answer, are read all the
/// while.
///
/// Threads are started when they are needed, and end when they have nothing to do for a while. They
/// are detached: what is stuck does not keep the process from ending.
/// Every member function may be called from any number of threads at once.
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
    /// No read is stuck before; nor before it takes eight times as long as usual.
    std::chrono::milliseconds patience{100};
  };

  /// A file that is read by them.
  class File;
  using FilePtr = std::shared_ptr<File>;
  static FilePtr file_of(std::shared_ptr<const FileSystemSpeed> file_system);

  explicit LocalReaders(const Limits& limits);
  LocalReaders(const LocalReaders&) = delete;
  LocalReaders& operator=(const LocalReaders&) = delete;
  ~LocalReaders();

  /// The process's own. The child of a fork has another one.
  static LocalReaders& process();
  /// Whether process() was called: then threads may run, so that a process must end by _exit(2).
  static bool is_running() noexcept;

  /// Has a thread run `read`, which reads the file; this one if there can be no other.
  /// @param when kAhead: others come first.
  void submit(const FilePtr& file, Foresight when, Read read);

  /// Whether reads of the file are under way that seem not to end.
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
