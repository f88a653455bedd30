// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/cache_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/file_lock.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "cache/block_cache.h"
#include "storage/local/file_system_type.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCacheCheck = "cache-directory";
constexpr const char* kLocksCheck = "cache-locks";
constexpr const char* kSpaceCheck = "cache-space";
constexpr mode_t kOthers = 0077;

/// The nearest existing directory above; missing ones would be made on its file system.
fs::path existing_part(fs::path path) {
  std::error_code failed;
  while (!fs::exists(path, failed) && path.has_relative_path()) path = path.parent_path();
  return path;
}

Finding bad(const char* name, const std::string& message, const std::string& remedy) {
  return {.name = name, .health = Health::kFailed, .message = message, .remedy = remedy};
}

/// @param own the user's directory in it, which need not be there.
Finding check_directory(const fs::path& directory, const fs::path& own) {
  struct stat status {};
  if (::lstat(own.c_str(), &status) == 0) {
    const std::string path = printable(own.string());
    if (!S_ISDIR(status.st_mode)) {
      return bad(kCacheCheck, path + " is not a directory", "rm " + shell_word(own));
    }
    if (status.st_uid != ::geteuid()) {
      return bad(kCacheCheck, fmt::format("{} belongs to user {}", path, status.st_uid),
                 fmt::format("chown -R {} {}", ::geteuid(), shell_word(own)));
    }
    if ((status.st_mode & kOthers) != 0) {
      return bad(kCacheCheck,
                 fmt::format("{} has mode {:04o}, but must be open to its owner alone", path,
                             status.st_mode & 07777U),
                 "chmod 700 " + shell_word(own));
    }
    return {.name = kCacheCheck, .message = path + " is there, and this user's alone"};
  }
  if (errno != ENOENT && errno != ENOTDIR) throw io_error("examine", own, errno);
  const fs::path above = existing_part(directory);
  const std::string path = printable(above.string());
  std::error_code failed;
  if (!fs::is_directory(above, failed)) {
    return bad(kCacheCheck, path + " is not a directory", "choose another --cache-dir");
  }
  if (::access(above.c_str(), W_OK | X_OK) != 0) {
    const int error = errno;
    // As for /tmp: each user makes a directory of his own in it.
    return bad(kCacheCheck,
               fmt::format("{} cannot be made: {}: {}", printable(own.string()), path,
                           std::strerror(error)),
               "sudo install -d -m 1777 " + shell_word(directory));
  }
  return {.name = kCacheCheck, .message = printable(own.string()) + " will be made"};
}

/// A file without a name, or one whose name is gone at once where there is no such thing.
Descriptor nameless_file(const fs::path& directory) {
  constexpr mode_t kMode = 0600;
  Descriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMode));
  if (file.get() >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string name = (directory / "reshardfs-doctor-XXXXXX").string();
  Descriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (named.get() >= 0) ::unlink(name.c_str());
  return named;
}

Finding check_locks(const fs::path& directory) {
  const Descriptor file = nameless_file(directory);
  if (file.get() < 0) {
    const int error = errno;
    return bad(kLocksCheck,
               fmt::format("no file can be made in {}: {}", printable(directory.string()),
                           std::strerror(error)),
               error == ENOSPC || error == EDQUOT ? "df -h " + shell_word(directory)
                                                  : "choose another --cache-dir");
  }
  // Opened anew it is locked as another process does.
  const std::string self = "/proc/self/fd/" + std::to_string(file.get());
  const Descriptor other(::open(self.c_str(), O_RDWR | O_CLOEXEC));
  const LockState first = try_lock(file.get());
  if (first == LockState::kTaken && other.get() < 0) {
    return skipped(kLocksCheck, "locks work for one process; two cannot be tried here");
  }
  if (first == LockState::kTaken && try_lock(other.get()) == LockState::kHeldElsewhere) {
    return {.name = kLocksCheck, .message = "locks work"};
  }
  return {.name = kLocksCheck,
          .health = Health::kWarning,
          .message =
              "the file system has no locks between processes: with several mounts the cache "
              "may outgrow its size",
          .remedy = "choose a --cache-dir on a local disk"};
}

/// Bytes on disk of all files below.
std::uint64_t held_bytes(const fs::path& own) {
  std::uint64_t bytes = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(own, failed), end; !failed && it != end;
       it.increment(failed)) {
    struct stat status {};
    constexpr std::uint64_t kBlock = 512;
    if (::lstat(it->path().c_str(), &status) == 0 && S_ISREG(status.st_mode)) {
      bytes += static_cast<std::uint64_t>(status.st_blocks) * kBlock;
    }
  }
  return bytes;
}

Finding check_space(const fs::path& directory, const fs::path& own, std::uint64_t max_bytes) {
  struct statvfs room {};
  if (::statvfs(directory.c_str(), &room) != 0) throw io_error("examine", directory, errno);
  const std::uint64_t free = std::uint64_t{room.f_bavail} * room.f_frsize;
  const std::uint64_t held = held_bytes(own);
  const std::uint64_t wanted = max_bytes - std::min(max_bytes, held);
  Finding finding{.name = kSpaceCheck,
                  .message = fmt::format("{} of at most {} in use, {} free", human_bytes(held),
                                         human_bytes(max_bytes), human_bytes(free))};
  if (free < wanted) {
    finding.health = Health::kWarning;
    finding.message += ": the disk is full before the cache is";
    constexpr std::uint64_t kGibibyte = 1 << 30;
    const std::uint64_t fits = std::max(held + free / 2, BlockCache::kMinBytes);
    finding.remedy = fits >= kGibibyte ? fmt::format("--cache-size {}GiB", fits / kGibibyte)
                                       : fmt::format("--cache-size {}MiB", fits >> 20U);
    return finding;
  }
  // A file system without a bound of its inodes says 0.
  const std::uint64_t files = wanted / BlockCache::kBlockBytes;
  if (room.f_files != 0 && room.f_favail < files) {
    finding.health = Health::kWarning;
    finding.message += fmt::format(", but only {} inodes for {} blocks of 1 MiB",
                                   std::uint64_t{room.f_favail}, files);
    finding.remedy = fmt::format("--cache-size {}MiB", (held >> 20U) + room.f_favail);
  }
  return finding;
}

}  // namespace

Findings check_cache(const fs::path& directory, std::uint64_t max_bytes) {
  const fs::path parent = fs::absolute(directory);
  const fs::path own = parent / fmt::format("reshardfs-{}", ::geteuid());
  Findings findings{check_directory(parent, own)};
  if (findings.back().health == Health::kFailed) {
    findings.push_back(skipped(kLocksCheck, "the directory will not do"));
    findings.push_back(skipped(kSpaceCheck, "the directory will not do"));
    return findings;
  }
  const fs::path there = existing_part(own);
  struct statfs system {};
  if (::statfs(there.c_str(), &system) == 0 && is_remote_type(type_of(system))) {
    findings.back().health = Health::kWarning;
    findings.back().message += ", on a network or FUSE file system";
    findings.back().remedy = "choose a --cache-dir on a local disk";
  }
  findings.push_back(check_locks(there));
  findings.push_back(check_space(there, own, max_bytes));
  return findings;
}

}  // namespace reshardfs
