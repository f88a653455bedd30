// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/fuse_descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "reshardfs/error.h"

#include "base/posix/poll_until.h"
#include "base/text/numbers.h"

namespace reshardfs {
namespace {

constexpr std::string_view kPrefix = "/dev/fd/";
/// The device number of /dev/fuse, under any name.
constexpr unsigned kFuseMajor = 10;
constexpr unsigned kFuseMinor = 229;

}  // namespace

std::optional<int> fuse_descriptor(const std::filesystem::path& mountpoint) {
  std::string_view text = mountpoint.native();
  if (!text.starts_with(kPrefix)) return {};
  text.remove_prefix(kPrefix.size());
  return parse_number<int>(text);
}

bool has_ended(int descriptor) {
  pollfd poll_fd{.fd = descriptor, .events = POLLIN, .revents = 0};
  return poll_until({&poll_fd, 1}, PollClock::now()) && (poll_fd.revents & POLLERR) != 0;
}

std::string fault_of_fuse_descriptor(int descriptor) {
  // A daemon puts /dev/null on these.
  if (descriptor <= STDERR_FILENO) return "this is a standard stream, not a mount's descriptor";
  struct stat stat {};
  if (::fstat(descriptor, &stat) != 0) return "no such descriptor is open";
  if (!S_ISCHR(stat.st_mode) || stat.st_rdev != ::makedev(kFuseMajor, kFuseMinor)) {
    return "this descriptor does not refer to /dev/fuse";
  }
  if ((::fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDWR) {
    return "this descriptor is not open for reading and writing";
  }
  if (has_ended(descriptor)) return "this descriptor of /dev/fuse belongs to no live mount";
  return "";
}

void check_fuse_descriptor(int descriptor) {
  const std::string fault = fault_of_fuse_descriptor(descriptor);
  if (fault.empty()) return;
  throw Error(ErrorKind::kUsage, fault)
      .in_file(std::string(kPrefix) + std::to_string(descriptor))
      .hint(
          "whoever starts reshardfs must open /dev/fuse, mount it with mount(2), and leave that "
          "descriptor open to it; or name a directory as mount point");
}

}  // namespace reshardfs
