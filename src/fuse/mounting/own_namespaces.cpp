// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/own_namespaces.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <system_error>

#include <sched.h>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/read_write.h"

namespace reshardfs {
namespace {

std::string why_no_namespace(int error) {
  if (error == ENOSPC) return "user.max_user_namespaces allows no more";
  if (error == ENOSYS || error == EINVAL) return "this kernel has no user namespaces";
  return "seccomp, AppArmor or kernel.unprivileged_userns_clone forbids it";
}

Error refused(const char* step, int error) {
  return Error(ErrorKind::kIo, std::string("cannot mount for a command alone: ") + step + ": " +
                                   std::strerror(error) + ": " + why_no_namespace(error))
      .hint(kWithoutMount);
}

/// Uses no memory.
int write_to(const char* path, const char* text, std::size_t length) noexcept {
  const Descriptor file(::open(path, O_WRONLY | O_CLOEXEC));
  if (!file) return errno;
  return ::write(file.get(), text, length) == static_cast<ssize_t>(length) ? 0 : errno;
}

/// @return 0, or an error. `inside` is what `outside` is called from now on.
int map_ids(uid_t inside_user, uid_t user, gid_t inside_group, gid_t group) noexcept {
  constexpr std::size_t kMost = 64;
  char text[kMost];  // NOLINT(modernize-avoid-c-arrays)
  if (const int error = write_to("/proc/self/setgroups", "deny", 4)) return error;
  int length = std::snprintf(text, kMost, "%u %u 1", inside_user, user);
  if (const int error = write_to("/proc/self/uid_map", text, static_cast<std::size_t>(length)))
    return error;
  length = std::snprintf(text, kMost, "%u %u 1", inside_group, group);
  return write_to("/proc/self/gid_map", text, static_cast<std::size_t>(length));
}

}  // namespace

MountRights mount_rights(const std::string& status) {
  constexpr unsigned kSysAdmin = 21;
  MountRights rights;
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    std::uint64_t value = 0;
    if (key == "CapEff:" && words >> std::hex >> value) {
      rights.has_capability = (value >> kSysAdmin & 1U) != 0;
    }
    if (key == "NoNewPrivs:" && words >> value) rights.ignores_set_user_id = value != 0;
  }
  return rights;
}

MountRights mount_rights() {
  return mount_rights(text_of_file("/proc/self/status"));
}

std::filesystem::path find_program(const std::string& name, const std::string& path) {
  std::istringstream directories(path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    auto program = std::filesystem::path(directory.empty() ? "." : directory) / name;
    std::error_code failed;
    if (::access(program.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(program, failed)) {
      return program;
    }
  }
  return {};
}

bool is_set_user_id_root(const std::filesystem::path& program) {
  struct stat status {};
  struct statvfs place {};
  return ::stat(program.c_str(), &status) == 0 && (status.st_mode & S_ISUID) != 0 &&
         status.st_uid == 0 && ::statvfs(program.c_str(), &place) == 0 &&
         (place.f_flag & ST_NOSUID) == 0;
}

bool may_mount_plainly() {
  const MountRights rights = mount_rights();
  if (rights.has_capability || rights.ignores_set_user_id) return rights.has_capability;
  const char* const path = std::getenv("PATH");
  return is_set_user_id_root(find_program("fusermount3", path == nullptr ? "" : path));
}

void enter_own_namespaces() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) throw refused("make a user namespace", errno);
  if (const int error = map_ids(0, user, 0, group)) throw refused("map this user in it", error);
  // Mounts must not come back to where the namespace was copied from.
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    throw refused("make its mounts private", errno);
  }
}

int map_back(uid_t user, gid_t group) noexcept {
  if (::unshare(CLONE_NEWUSER) != 0) return errno;
  return map_ids(user, 0, group, 0);
}

}  // namespace reshardfs
