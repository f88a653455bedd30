// SPDX-License-Identifier: Apache-2.0
/// Asks the kernel about changes to an open file: whether it was written, or only its attributes
/// and links changed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

namespace reshardfs {

/// The events of a file since a moment.
struct FileNews {
  bool written = false;        ///< by a call that writes
  bool maybe_written = false;  ///< or closed by a process that could write, or events may be lost
  bool altered = false;        ///< attributes, links or name
  /// The moment of this answer, for the next call.
  std::uint64_t moment = 0;
};

/// A watch of an inode. It sees changes through any name, hard link, mount or file handle. All
/// watches of the process share one inotify instance, and watches of the same inode are shared.
/// Every member function may be called from any number of threads at once.
class FileWatch {
 public:
  /// @param fd an open file.
  /// @return nullptr if a watch does not see every writer, as on network file systems, or if it
  ///         cannot be created (the user has too many, or /proc is missing).
  static std::shared_ptr<const FileWatch> of(int fd);

  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;
  virtual ~FileWatch() = default;

  /// The events after `moment`; 0 is before all events. The kernel updates the times of a file
  /// before it reports the event, so an event may be missing here for an instant.
  virtual FileNews since(std::uint64_t moment) const = 0;
  /// Waits until there may be events of any watched file.
  virtual void wait(std::chrono::milliseconds longest) const = 0;

 protected:
  FileWatch() = default;
};

}  // namespace reshardfs
