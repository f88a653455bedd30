// SPDX-License-Identifier: Apache-2.0
/// What the kernel tells about a file that is open here: whether it was written, or only its
/// attributes and links were changed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

namespace reshardfs {

/// What happened to a file since a moment.
struct FileNews {
  bool written = false;        ///< by a call that writes
  bool maybe_written = false;  ///< or closed by somebody who could write, or news may be lost
  bool altered = false;        ///< attributes, links or name
  /// The moment of this answer, for the next question.
  std::uint64_t moment = 0;
};

/// A watch of an inode: it does not matter by which name, hard link, mount or file handle somebody
/// reaches it. All watches of the process share one inotify instance, and those of one inode are
/// one. Every member function may be called from any number of threads at once.
class FileWatch {
 public:
  /// @param fd an open file.
  /// @return nullptr where a watch does not see every writer, as on network file systems, and
  ///         where there can be none: the user has too many, /proc is missing.
  static std::shared_ptr<const FileWatch> of(int fd);

  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;
  virtual ~FileWatch() = default;

  /// What happened after `moment`; 0 is before everything. The kernel moves the times of a file
  /// before it tells of the change: what they show may be missing here for an instant.
  virtual FileNews since(std::uint64_t moment) const = 0;
  /// Waits until there may be news, of this file or of another.
  virtual void wait(std::chrono::milliseconds longest) const = 0;

 protected:
  FileWatch() = default;
};

}  // namespace reshardfs
