// SPDX-License-Identifier: Apache-2.0
#include "storage/local/file_watch.h"

#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/posix/poll_until.h"
#include "base/process/process_state.h"

namespace reshardfs {
namespace {

/// Changes of a file system that others make, on another machine or in a server, are no news here:
/// so only those where every change passes through this kernel.
bool sees_every_writer(int fd) noexcept {
  constexpr std::array<unsigned long, 5> kLocal{
      EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC};
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0) return false;
  return std::find(kLocal.begin(), kLocal.end(), static_cast<unsigned long>(system.f_type)) !=
         kLocal.end();
}

constexpr std::uint32_t kMaybeWritten = IN_MODIFY | IN_CLOSE_WRITE;
constexpr std::uint32_t kAltered = IN_ATTRIB | IN_MOVE_SELF;
/// No more news will come.
constexpr std::uint32_t kOver = IN_IGNORED | IN_UNMOUNT;

class Watch;

/// The inotify instance of the process.
class Watches {
 public:
  Watches() = default;
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;
  ~Watches() = default;

  std::shared_ptr<const FileWatch> add(int fd);
  void remove(const Watch& watch);
  FileNews news(const Watch& watch, std::uint64_t moment);
  void wait(std::chrono::milliseconds longest) const;
  /// In the child of a fork. Events are read by one process only: whichever of two read them first
  /// would leave the other without.
  void leave() noexcept;

 private:
  bool start();
  void drain();
  void take(const inotify_event& event);

  std::mutex mutex_;               // guards all below, and the numbers in each Watch
  std::atomic<int> inotify_ = -1;  ///< written under mutex_
  std::uint64_t last_ = 0;         ///< number of the last event
  std::uint64_t lost_ = 0;         ///< number of the last time that the queue was full
  std::map<int, Watch*> by_number_;
};

class Watch final : public FileWatch {
 public:
  explicit Watch(Watches& watches) : watches_(watches) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() override;

  FileNews since(std::uint64_t moment) const override;
  void wait(std::chrono::milliseconds longest) const override;

 private:
  friend class Watches;
  Watches& watches_;
  int number_ = -1;  ///< inotify's
  std::weak_ptr<Watch> self_;
  std::uint64_t written_ = 0;  ///< number of the last event of the kind
  std::uint64_t maybe_written_ = 0;
  std::uint64_t altered_ = 0;
  bool over_ = false;
};

ProcessState<Watches> the_watches("file watches", make_new<Watches>,
                                  [](Watches& before) { before.leave(); });

/// One that a fork has copied gets no news any more.
Watch::~Watch() {
  if (the_watches.made() == &watches_) watches_.remove(*this);
}

FileNews Watch::since(std::uint64_t moment) const {
  if (the_watches.made() == &watches_) return watches_.news(*this, moment);
  return {.written = false, .maybe_written = true, .altered = false, .moment = moment};
}

void Watch::wait(std::chrono::milliseconds longest) const {
  if (the_watches.made() == &watches_) watches_.wait(longest);
}

void Watches::leave() noexcept {
  const int descriptor = inotify_.exchange(-1);
  if (descriptor >= 0) ::close(descriptor);
}

bool Watches::start() {
  if (inotify_ < 0) inotify_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  return inotify_ >= 0;
}

std::shared_ptr<const FileWatch> Watches::add(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  // What needs memory comes before the kernel watches: without it, nothing would end the watch.
  auto watch = std::make_shared<Watch>(*this);
  auto entry = std::map<int, Watch*>{{watch->number_, watch.get()}}.extract(watch->number_);
  const std::lock_guard lock(mutex_);
  if (!start()) return nullptr;
  const int number = ::inotify_add_watch(inotify_, path.c_str(), kMaybeWritten | kAltered);
  if (number < 0) return nullptr;
  // Events already in the queue belong to earlier watches.
  drain();
  if (const auto known = by_number_.find(number); known != by_number_.end()) {
    if (std::shared_ptr<Watch> shared = known->second->self_.lock()) return shared;
  }
  watch->number_ = entry.key() = number;
  watch->self_ = watch;
  // One that is about to be removed finds this one in its place.
  by_number_.insert(std::move(entry)).position->second = watch.get();
  return watch;
}

void Watches::remove(const Watch& watch) {
  const std::lock_guard lock(mutex_);
  const auto found = by_number_.find(watch.number_);
  if (found == by_number_.end() || found->second != &watch) return;
  by_number_.erase(found);
  ::inotify_rm_watch(inotify_, watch.number_);
  drain();  // each removal leaves an event in the queue
}

FileNews Watches::news(const Watch& watch, std::uint64_t moment) {
  const std::lock_guard lock(mutex_);
  if (!watch.over_) drain();
  return {.written = watch.written_ > moment,
          .maybe_written = watch.over_ || watch.maybe_written_ > moment || lost_ > moment,
          .altered = watch.altered_ > moment,
          .moment = last_};
}

void Watches::drain() {
  constexpr std::size_t kBytes = 16U << 10U;
  std::array<char, kBytes> buffer;  // copied out of, so that it need not be aligned
  while (true) {
    const ssize_t got = ::read(inotify_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      at += sizeof(event) + event.len;
      take(event);
    }
  }
}

void Watches::take(const inotify_event& event) {
  ++last_;
  if ((event.mask & IN_Q_OVERFLOW) != 0) lost_ = last_;
  const auto found = by_number_.find(event.wd);
  if (found == by_number_.end()) return;
  Watch& watch = *found->second;
  if ((event.mask & IN_MODIFY) != 0) watch.written_ = last_;
  if ((event.mask & kMaybeWritten) != 0) watch.maybe_written_ = last_;
  if ((event.mask & kAltered) != 0) watch.altered_ = last_;
  if ((event.mask & kOver) == 0) return;
  watch.over_ = true;
  by_number_.erase(found);
}

void Watches::wait(std::chrono::milliseconds longest) const {
  wait_readable(inotify_, deadline_after(longest));
}

}  // namespace

std::shared_ptr<const FileWatch> FileWatch::of(int fd) {
  return sees_every_writer(fd) ? the_watches.get().add(fd) : nullptr;
}

}  // namespace reshardfs
