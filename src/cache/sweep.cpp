// SPDX-License-Identifier: Apache-2.0
#include "cache/sweep.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "base/posix/directory_stream.h"
#include "base/posix/file_lock.h"

namespace reshardfs {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

/// Shorter than a sweep may take: the lock is held for some microseconds only, except by a process
/// that is stopped.
constexpr FileLock::Patience kSweepPatience = seconds(2);

nanoseconds now() noexcept {
  return std::chrono::system_clock::now().time_since_epoch();
}

nanoseconds last_use(const struct stat& status) noexcept {
  return seconds(status.st_mtim.tv_sec) + nanoseconds(status.st_mtim.tv_nsec);
}

std::uint64_t occupied_by(const struct stat& status) noexcept {
  return occupied(static_cast<std::uint64_t>(status.st_size));
}

/// Calls action(name, status) for each file of a folder.
/// @return 0, or an error number.
template <typename Action>
int for_each_file(int root, const char* folder, Action&& action) {
  DirectoryStream listing(open_in(root, folder, O_RDONLY | O_DIRECTORY));
  if (!listing) return errno;
  while (const dirent* entry = listing.next()) {
    struct stat status {};
    if (::fstatat(listing.descriptor(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(status.st_mode)) action(static_cast<const char*>(entry->d_name), status);
  }
  return errno;
}

/// Whether the process that was writing the file is no more.
bool is_abandoned(int root, const char* path, const struct stat& status) noexcept {
  constexpr nanoseconds kLongAgo = std::chrono::hours(1);
  // To write: without that, some network file systems give out no lock.
  const Descriptor file = open_in(root, path, O_RDWR);
  if (!file) return false;
  const LockState lock = try_lock(file.get());
  return lock == LockState::kTaken ||
         (lock == LockState::kUnsupported && now() - last_use(status) > kLongAgo);
}

/// With the ledger's lock. @return the bytes of those that are still being written.
std::uint64_t clear_fillings(const CacheDirectory& directory) {
  std::uint64_t bytes = 0;
  for_each_file(directory.descriptor(), CacheDirectory::kFilling,
                [&](const char* name, const struct stat& status) {
                  const std::string path = std::string(CacheDirectory::kFilling) + '/' + name;
                  if (is_abandoned(directory.descriptor(), path.c_str(), status)) {
                    ::unlinkat(directory.descriptor(), path.c_str(), 0);
                  } else {
                    bytes += occupied_by(status);
                  }
                });
  return bytes;
}

/// A record that may be evicted.
struct Candidate {
  nanoseconds used{};
  std::uint32_t pages = 0;
  RecordPath path{};
};

std::optional<RecordPath> path_of(const char* folder, const char* name) noexcept {
  RecordPath path{};
  constexpr std::size_t kFolderBytes = 2;  // with the slash
  if (std::strlen(name) != path.size() - 1 - kFolderBytes) return std::nullopt;
  path[0] = *folder;
  path[1] = '/';
  std::copy_n(name, path.size() - kFolderBytes, path.begin() + kFolderBytes);
  return path;
}

class Sweep {
 public:
  Sweep(CacheDirectory& directory, const std::stop_token& stop)
      : directory_(directory), stop_(stop) {}

  int recount();
  int evict(std::uint64_t target);
  std::uint64_t evicted() const noexcept { return evicted_; }

 private:
  int list();
  void count(const char* path) noexcept;
  int give_back(std::uint64_t bytes);

  CacheDirectory& directory_;
  const std::stop_token& stop_;
  std::vector<Candidate> candidates_;
  std::uint64_t found_ = 0;  ///< bytes
  std::uint64_t held_ = 0;   ///< bytes, as the ledger has them since
  std::uint64_t evicted_ = 0;
};

/// What is added while records are listed may be seen or not: it is added to what was seen, so that
/// the count may become too high, but never too low. A file gets its name after it was made in the
/// folder of fillings, so that those who come first are looked for first.
int Sweep::recount() {
  Ledger& ledger = directory_.ledger();
  Balance before;
  {
    const auto lock = FileLock::take(ledger.descriptor(), kSweepPatience, stop_);
    if (!lock) return ETIMEDOUT;
    before = ledger.read();
    found_ = clear_fillings(directory_);
  }
  if (const int failed = list()) return failed;
  const auto lock = FileLock::take(ledger.descriptor(), kSweepPatience, stop_);
  if (!lock) return ETIMEDOUT;
  Balance balance = ledger.read();
  // Damaged meanwhile: it is unknown how much was added before.
  if (before.known && !balance.known) return EAGAIN;
  const std::uint64_t added = before.known ? balance.added - before.added : 0;
  balance.held = found_ + added;
  balance.recount = random_number();
  balance.known = true;
  held_ = balance.held;
  return ledger.write(balance);
}

void Sweep::count(const char* path) noexcept {
  struct stat status {};
  if (::fstatat(directory_.descriptor(), path, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    found_ += occupied_by(status);
  }
}

int Sweep::list() {
  const int root = directory_.descriptor();
  count(".");
  count(CacheDirectory::kFilling);
  found_ += occupied(1);  // the ledger, which may be empty still
  for (std::size_t i = 0; i < CacheDirectory::kFolders; ++i) {
    if (stop_.stop_requested()) return EINTR;
    const auto folder = CacheDirectory::folder_name(i);
    count(folder.data());
    const int failed =
        for_each_file(root, folder.data(), [&](const char* name, const struct stat& status) {
          found_ += occupied_by(status);
          const auto path = path_of(folder.data(), name);
          if (!path) return;
          // A time in the future means nothing: the clock was set back.
          const nanoseconds used =
              last_use(status) > now() + seconds(1) ? nanoseconds(0) : last_use(status);
          candidates_.push_back(
              {used, static_cast<std::uint32_t>(occupied_by(status) / occupied(1)), *path});
        });
    if (failed != 0) return failed;
  }
  return 0;
}

int Sweep::evict(std::uint64_t target) {
  constexpr std::uint64_t kStep = 64 << 20;
  if (held_ <= target) return 0;
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.used < b.used; });
  const int root = directory_.descriptor();
  std::uint64_t freed = 0;
  for (const Candidate& candidate : candidates_) {
    if (held_ - freed <= target || stop_.stop_requested()) break;
    struct stat status {};
    if (::fstatat(root, candidate.path.data(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const bool used_since = last_use(status) > candidate.used && last_use(status) <= now();
    if (used_since || ::unlinkat(root, candidate.path.data(), 0) != 0) continue;
    ++evicted_;
    freed += std::min(candidate.pages * occupied(1), held_ - freed);
    if (freed < kStep) continue;
    // Lets others go on that wait for room.
    if (const int failed = give_back(freed)) return failed;
    freed = 0;
  }
  return give_back(freed);
}

int Sweep::give_back(std::uint64_t bytes) {
  Ledger& ledger = directory_.ledger();
  const auto lock = FileLock::take(ledger.descriptor(), kSweepPatience, stop_);
  if (!lock) return ETIMEDOUT;
  Balance balance = ledger.read();
  balance.held -= std::min(balance.held, bytes);
  held_ -= std::min(held_, bytes);
  return balance.known ? ledger.write(balance) : 0;
}

}  // namespace

SweepResult sweep(CacheDirectory& directory, std::uint64_t target,
                  const std::stop_token& stop) noexcept {
  try {
    Sweep work(directory, stop);
    int failed = work.recount();
    if (failed == 0) failed = work.evict(target);
    return {failed, work.evicted()};
  } catch (const std::bad_alloc&) {
    return {ENOMEM, 0};
  }
}

void remove_abandoned(CacheDirectory& directory, const std::stop_token& stop) noexcept {
  try {
    const auto lock = FileLock::take(directory.ledger().descriptor(), kSweepPatience, stop);
    if (lock) clear_fillings(directory);
  } catch (const std::bad_alloc&) {
    // The next sweep removes them.
  }
}

}  // namespace reshardfs
