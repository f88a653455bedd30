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
#include "storage/pool/range_fetcher.h"

namespace reshardfs {

/// A read of a file system that hangs may never return, and cannot be cancelled. So a read that
/// takes many times as long as others of its file system counts as stuck, and gives its place to
/// other reads.
/// - While any read is stuck in its file system, a file begins with a few reads at once, and gets
///   one more for each that comes back: what answers is soon read as fast as ever, and each further
///   file that hangs takes only a few threads.
/// - A file of which a read gets stuck begins again with one. While that does not come back either,
///   another one tries the file from time to time.
/// - A file counts with a few of its stuck reads, and a file system in which many are stuck tries
///   such files less. But of a file of which none is stuck, a read is always under way.
/// - Reads ahead leave places for those that somebody waits for.
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
    unsigned ahead_at_once = 48;  ///< while as many are under way, no read ahead begins
    unsigned of_file = 32;
    unsigned of_new_file = 4;  ///< at first, while any read of its file system is stuck
    unsigned stuck_of_file = 32;
    unsigned counted_of_file = 4;  ///< of the stuck ones, for the next
    unsigned stuck_of_file_system = 128;
    unsigned threads = 1024;
    std::chrono::milliseconds probe_interval{500};  ///< for each stuck read of the file
    /// A read counts as stuck only after this time; see FileSystemSpeed::patience().
    std::chrono::milliseconds patience = FileSystemSpeed::kPatience;
    std::chrono::milliseconds idle{10'000};  ///< for so long a thread waits for work
  };

  /// A file that is read by these threads.
  class File;
  using FilePtr = std::shared_ptr<File>;
  static FilePtr file_of(std::shared_ptr<FileSystemSpeed> file_system);

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

  using Answering = RangeFetcher::Answering;
  /// Whether reads of the file come back.
  Answering answering(const FilePtr& file) const;
  /// A read of the file that takes longer is stuck.
  Clock::duration patience(const FilePtr& file) const noexcept;

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
