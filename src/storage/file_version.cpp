// SPDX-License-Identifier: Apache-2.0
#include "storage/file_version.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "base/posix/file_times.h"
#include "base/process/counters.h"
#include "storage/local/file_watch.h"

namespace reshardfs {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kWasChanged = "has been changed while it was in use";
constexpr const char* kNothingTells =
    "may have been changed while it was in use: its change time has moved, for an unknown reason";

/// While it exists, no process can open the file for writing, and none had it open for writing when
/// it was created. It must be short-lived, because a process that opens the file meanwhile waits.
class NoWriters {
 public:
  explicit NoWriters(int fd) noexcept
      : fd_(fd),
        // A lease that is broken sends SIGIO, which kills; SIGURG is ignored by default.
        sure_(::fcntl(fd, F_SETSIG, SIGURG) == 0 && ::fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {}
  NoWriters(const NoWriters&) = delete;
  NoWriters& operator=(const NoWriters&) = delete;
  ~NoWriters() {
    if (sure_) ::fcntl(fd_, F_SETLEASE, F_UNLCK);
  }
  /// Not if there are writers, nor where it cannot be known: of a file of somebody else.
  bool sure() const noexcept { return sure_; }

 private:
  int fd_;
  bool sure_;
};

}  // namespace

Error changed(const std::string& name, const std::string& what) {
  counters().source_changed();
  return Error(ErrorKind::kChanged, what).in_file(name).hint("mount again when it is complete");
}

FileVersion::FileVersion(int fd, std::string name)
    : name_(std::move(name)),
      // Before the times are taken: what is written in between then shows in both.
      watch_(FileWatch::of(fd)),
      found_(examine(fd)),
      was_deleted_(found_.st_nlink == 0) {
  if (watch_) moment_ = watch_->since(0).moment;
  begin(found_);
}

FileVersion::~FileVersion() = default;

struct stat FileVersion::examine(int fd) const {
  struct stat now {};
  if (::fstat(fd, &now) != 0) throw io_error("examine", name_, errno);
  return now;
}

/// From now on `now` has the times that count.
void FileVersion::begin(const struct stat& now) const {
  change_time_ = nanoseconds(now.st_ctim);
  // Old inodes of ext4 have whole seconds, most kernels hundredths, new ones no ticks at all.
  const std::chrono::milliseconds tick(now.st_ctim.tv_nsec == 0 ? 2000 : 20);
  const auto age = std::chrono::system_clock::now().time_since_epoch() -
                   std::chrono::nanoseconds(nanoseconds(now.st_ctim));
  is_settled_ = watch_ == nullptr || age > tick;
  settles_ = Clock::now() + tick;
}

FileVersion::Moved FileVersion::compare(const struct stat& now) const noexcept {
  const bool same = found_.st_dev == now.st_dev && found_.st_ino == now.st_ino &&
                    found_.st_size == now.st_size &&
                    nanoseconds(found_.st_mtim) == nanoseconds(now.st_mtim);
  if (!same) return Moved::kMore;
  return nanoseconds(now.st_ctim) == change_time_ ? Moved::kNothing : Moved::kChangeTime;
}

bool FileVersion::is_known_as(int fd) const noexcept {
  struct stat now {};
  return !has_changed_ && ::fstat(fd, &now) == 0 && compare(now) == Moved::kNothing;
}

void FileVersion::require_same(int fd) const {
  if (is_settled_ && !has_changed_ && compare(examine(fd)) == Moved::kNothing) return;
  const std::lock_guard lock(mutex_);
  if (reason_.empty()) reason_ = what_has_changed(fd);
  if (reason_.empty()) return;
  has_changed_ = true;
  throw changed(name_, reason_);
}

/// Why `now` is more than a moved change time.
std::string FileVersion::difference(const struct stat& now) const {
  if (now.st_size < found_.st_size) return "has become shorter while it was in use";
  const bool is_another = found_.st_dev != now.st_dev || found_.st_ino != now.st_ino;
  const std::string what = is_another                      ? "it is another file now"
                           : now.st_size != found_.st_size ? "it has another size"
                                                           : "it has another modification time";
  return kWasChanged + (": " + what);
}

/// @return empty: the file is what it was.
std::string FileVersion::what_has_changed(int fd) const {
  // The kernel moves the times of a file, and then tells of it: in between there may be whatever
  // else the processor has to do.
  constexpr std::chrono::seconds kLongestDelay(1);
  // Somebody else may have taken the news out of the queue.
  constexpr std::chrono::milliseconds kPause(10);
  const Clock::time_point deadline = Clock::now() + kLongestDelay;
  while (true) {
    const bool settled = Clock::now() > settles_;
    const struct stat now = examine(fd);
    const Moved moved = compare(now);
    if (moved == Moved::kNothing) {
      if (watch_ && watch_->since(moment_).written) return kWasChanged;
      if (settled) is_settled_ = true;
      return {};
    }
    if (moved == Moved::kMore) {
      return difference(now);
    }
    switch (judge(fd, now)) {
      case Verdict::kAccepted:
        return {};
      case Verdict::kChanged:
        return kWasChanged;
      case Verdict::kUnknown:
        return "may have been changed while it was in use: its change time has moved, and a writer "
               "cannot be ruled out";
      case Verdict::kMovedAgain:
        if (Clock::now() > deadline) return kNothingTells;
        continue;
      case Verdict::kNoNewsYet:
        break;
    }
    if (Clock::now() > deadline) return kNothingTells;
    watch_->wait(kPause);
  }
}

/// Of a change time that has moved alone.
FileVersion::Verdict FileVersion::judge(int fd, const struct stat& now) const {
  const bool deleted = now.st_nlink == 0 && !was_deleted_;
  if (!watch_ && !deleted) return Verdict::kUnknown;
  std::optional<NoWriters> no_writers;
  if (!deleted && !no_writers.emplace(fd).sure()) return Verdict::kUnknown;
  FileNews news;
  if (watch_) news = watch_->since(moment_);
  if (news.maybe_written) return Verdict::kChanged;
  if (!news.altered && !deleted) return Verdict::kNoNewsYet;
  // What happened after `now` was taken may be among the news: it must not be lost for a later
  // time.
  const struct stat after = examine(fd);
  if (compare(after) != Moved::kChangeTime ||
      nanoseconds(after.st_ctim) != nanoseconds(now.st_ctim)) {
    return Verdict::kMovedAgain;
  }
  begin(now);
  was_deleted_ = was_deleted_ || deleted;
  moment_ = news.moment;
  return Verdict::kAccepted;
}

}  // namespace reshardfs
