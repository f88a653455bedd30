// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "reshardfs/error.h"

namespace reshardfs {

class FileWatch;

/// The error for a source that is not what it was; counts it.
Error changed(const std::string& name, const std::string& what);

/// What an open file was, and whether it still has the bytes that it had then.
///
/// Device, inode, size and modification time have to stay. The change time betrays a writer that
/// sets the modification time back, but it moves as well when a file is deleted, linked, renamed or
/// given to another owner. Where it has moved alone, that is accepted, and the new one counts from
/// then on, if a watch tells that attributes or links were changed and nobody wrote, and if nobody
/// has the file open to write it: of what is written through a map, or by an asynchronous request,
/// the kernel tells only when the writer closes the file. A file whose last link has gone keeps its
/// bytes for those who have it open: its times are fixed anew once, unless a watch tells of a
/// writer. In every other case the file has changed, and that is final.
///
/// As many changes as fall into one tick of the clock leave the same times. As long as the change
/// time is that young, the watch is asked as well.
///
/// Every member function may be called from any number of threads at once.
class FileVersion {
 public:
  /// @param fd an open file.
  /// @throws Error kIo if it cannot be examined.
  FileVersion(int fd, std::string name);
  FileVersion(const FileVersion&) = delete;
  FileVersion& operator=(const FileVersion&) = delete;
  ~FileVersion();

  const std::string& name() const noexcept { return name_; }
  /// As it was found.
  const struct stat& found() const noexcept { return found_; }

  /// Costs one system call as long as nothing has moved.
  /// @param fd the file, open to be read only; perhaps opened anew.
  /// @throws Error kChanged with what to do, kIo if it cannot be examined.
  void require_same(int fd) const;

 private:
  enum class Moved : std::uint8_t { kNothing, kChangeTime, kMore };
  enum class Verdict : std::uint8_t { kAccepted, kChanged, kUnknown, kNoNewsYet, kMovedAgain };

  struct stat examine(int fd) const;
  void begin(const struct stat& now) const;
  Moved compare(const struct stat& now) const noexcept;
  std::string what_has_changed(int fd) const;
  Verdict judge(int fd, const struct stat& now) const;

  const std::string name_;
  std::shared_ptr<const FileWatch> watch_;
  struct stat found_;
  mutable std::atomic<std::int64_t> change_time_;
  mutable std::atomic<bool> is_settled_{false};  ///< another change would have another time
  mutable std::atomic<bool> has_changed_{false};
  mutable std::mutex mutex_;  // held by who looks for the reason of a change; guards all below
  mutable std::chrono::steady_clock::time_point settles_;
  mutable bool was_deleted_;
  mutable std::uint64_t moment_ = 0;  ///< news before it has been looked at
  mutable std::string reason_;        ///< why has_changed_
};

}  // namespace reshardfs
