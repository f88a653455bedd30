// SPDX-License-Identifier: Apache-2.0
#include "storage/local/local_identity.h"

#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/posix/file_times.h"
#include "base/posix/mount_table.h"
#include "base/posix/read_write.h"
#include "storage/local/file_system_type.h"

namespace reshardfs {
namespace {

/// The coarsest clock of a file system that is in use: FAT counts by two seconds.
constexpr std::int64_t kCoarsestTick = 2'000'000'000;

/// Type and source of the mount that shows a device, such as "nfs4 server:/export"; empty if it is
/// not found.
std::string mount_source(dev_t device) {
  const std::string wanted =
      std::to_string(::major(device)) + ":" + std::to_string(::minor(device));
  for (const MountEntry& mount : parse_mount_table(text_of_file("/proc/self/mountinfo"))) {
    if (mount.device == wanted) return mount.type + " " + mount.source;
  }
  return {};
}

/// The number of a device without a disk depends on the order of mounts. So a file system is known
/// by the id that it has itself; NFS and FUSE have none, and are known by what is mounted. Of FUSE
/// that may be the name of the program only, so there the number must be the same, too.
std::string file_system_id(const std::string& path, dev_t device) {
  constexpr unsigned long kFuse = 0x65735546;
  std::string number = std::to_string(device);
  struct statfs system {};
  if (::statfs(path.c_str(), &system) != 0) return number;
  std::array<unsigned, 2> id{};
  static_assert(sizeof(id) == sizeof(system.f_fsid));
  std::memcpy(id.data(), &system.f_fsid, sizeof(id));
  const unsigned long type = type_of(system);
  const std::string kind = std::to_string(type);
  if (id != std::array<unsigned, 2>{}) {
    return kind + " " + std::to_string(id[0]) + " " + std::to_string(id[1]);
  }
  const std::string source = mount_source(device);
  if (source.empty() || type == kFuse) return kind + " " + source + " " + number;
  return kind + " " + source;
}

}  // namespace

std::string local_identity(const std::string& path, const struct stat& found,
                           std::chrono::system_clock::time_point now) {
  using std::chrono::duration_cast;
  const std::int64_t latest =
      duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count() - kCoarsestTick;
  const std::int64_t written = nanoseconds(found.st_mtim);
  const std::int64_t altered = nanoseconds(found.st_ctim);
  if (written > latest || altered > latest) return {};
  std::error_code failure;
  const std::string place = std::filesystem::absolute(path, failure).string();
  if (failure) return {};
  // The path comes last: it may have any character.
  return "local file\n" + file_system_id(path, found.st_dev) + "\n" + std::to_string(found.st_ino) +
         " " + std::to_string(found.st_size) + " " + std::to_string(written) + " " +
         std::to_string(altered) + "\n" + place;
}

}  // namespace reshardfs
