// SPDX-License-Identifier: Apache-2.0
#include "kill_points.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>

namespace reshardfs::test {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> armed = false;
std::mutex mutex;
KillPoint armed_point;  ///< guarded by mutex, as what follows
int told = -1;

/// @return whether this call is the one to stop at.
bool is_point() {
  if (!armed.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex);
  if (!armed || !is_doing(::getpid(), armed_point.moment)) return false;
  if (armed_point.calls > 0) {
    --armed_point.calls;
    return false;
  }
  armed = false;
  return true;
}

void stop() {
  if (::write(told, &kStopped, 1) == 1) ::raise(SIGSTOP);
}

void stop_if_point() {
  if (is_point()) stop();
}

}  // namespace

bool is_doing(pid_t pid, Moment moment) {
  const fs::path process = "/proc/" + std::to_string(pid);
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(process / "fd", gone)) {
    const fs::path file = fs::read_symlink(entry.path(), gone);
    if (moment == Moment::kWriting && file.parent_path().filename() == "filling") return true;
    if (moment != Moment::kEvicting || file.filename() != "sweep") continue;
    std::ifstream info(process / "fdinfo" / entry.path().filename());
    for (std::string line; std::getline(info, line);) {
      if (line.starts_with("lock:")) return true;
    }
  }
  return false;
}

void stop_at(const KillPoint& point, int events) {
  const std::lock_guard lock(mutex);
  armed_point = point;
  told = events;
  armed.store(true, std::memory_order_release);
}

}  // namespace reshardfs::test

// What the cache calls, by the linker's option --wrap.
using reshardfs::test::stop_if_point;
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
int __real_flock(int file, int operation);
int __real_ftruncate64(int file, off_t size);
ssize_t __real_pwrite64(int file, const void* bytes, std::size_t count, off_t offset);
int __real_renameat2(int from, const char* source, int to, const char* target, unsigned flags);
int __real_unlinkat(int root, const char* path, int flags);
int __real_fstatat64(int root, const char* path, struct stat* status, int flags);
DIR* __real_fdopendir(int folder);

int __wrap_flock(int file, int operation) {
  stop_if_point();
  return __real_flock(file, operation);
}

int __wrap_ftruncate64(int file, off_t size) {
  stop_if_point();
  return __real_ftruncate64(file, size);
}

ssize_t __wrap_pwrite64(int file, const void* bytes, std::size_t count, off_t offset) {
  if (reshardfs::test::is_point()) {
    const ssize_t half = __real_pwrite64(file, bytes, count / 2, offset);
    reshardfs::test::stop();
    return half;
  }
  return __real_pwrite64(file, bytes, count, offset);
}

int __wrap_renameat2(int from, const char* source, int to, const char* target, unsigned flags) {
  stop_if_point();
  return __real_renameat2(from, source, to, target, flags);
}

int __wrap_unlinkat(int root, const char* path, int flags) {
  stop_if_point();
  return __real_unlinkat(root, path, flags);
}

int __wrap_fstatat64(int root, const char* path, struct stat* status, int flags) {
  stop_if_point();
  return __real_fstatat64(root, path, status, flags);
}

DIR* __wrap_fdopendir(int folder) {
  stop_if_point();
  return __real_fdopendir(folder);
}
// NOLINTEND(bugprone-reserved-identifier)
}
