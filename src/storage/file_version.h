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

/// The error for a source that has changed; counts it.
Error changed(const std::string& name, const std::string& what);

/// The version of an open file, and whether the file still has the bytes that it had then.
///
/// Device, inode, size and modification time must stay the same. The change time reveals a writer
/// that sets the modification time back, but it also changes when a file is deleted, linked,
/// renamed or gets another owner. If only the change time differs, the new one is accepted under
/// two conditions: a watch reports changed attributes or links but no write, and no process has the
/// file open for writing. The second is needed because the kernel reports writes through a mapping,
/// or by an asynchronous request, only when the writer closes the file. A file whose last link is
/// gone keeps its bytes while it is open: its times are updated once, unless a watch reports a
/// writer. In every other case the file has changed, and that is final.
///
/// Several changes within one tick of the clock leave the same times. While the change time is that
/// recent, the watch is checked as well.
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

  /// Whether this is the file as require_same() last accepted it. Has no effect on the verdict.
  /// @param fd open read-only.
  bool is_known_as(int fd) const noexcept;

  /// Takes one system call while the times have not changed.
  /// @param fd the file, open read-only; may have been opened again.
  /// @throws Error kChanged with what to do, kIo if it cannot be examined.
  void require_same(int fd) const;

 private:
  enum class Moved : std::uint8_t { kNothing, kChangeTime, kMore };
  enum class Verdict : std::uint8_t { kAccepted, kChanged, kUnknown, kNoNewsYet, kMovedAgain };

  struct stat examine(int fd) const;
  void begin(const struct stat& now) const;
  Moved compare(const struct stat& now) const noexcept;
  std::string difference(const struct stat& now) const;
  std::string what_has_changed(int fd) const;
  Verdict judge(int fd, const struct stat& now) const;

  const std::string name_;
  std::shared_ptr<const FileWatch> watch_;
  struct stat found_;
  mutable std::atomic<std::int64_t> change_time_;
  mutable std::atomic<bool> is_settled_{false};  ///< another change would have another time
  mutable std::atomic<bool> has_changed_{false};
  mutable std::mutex mutex_;  // held while looking for the reason of a change; guards all below
  mutable std::chrono::steady_clock::time_point settles_;
  mutable bool was_deleted_;
  mutable std::uint64_t moment_ = 0;  ///< events before this moment have been evaluated
  mutable std::string reason_;        ///< why has_changed_
};

}  // namespace reshardfs
