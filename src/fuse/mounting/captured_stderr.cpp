// SPDX-License-Identifier: Apache-2.0
#include "fuse/mounting/captured_stderr.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/posix/descriptor.h"
#include "base/posix/read_write.h"
#include "base/text/near_name.h"
#include "fuse/mounting/own_namespaces.h"

namespace reshardfs {
namespace {

/// More than any program has to tell here.
constexpr std::size_t kMostBytes = std::size_t{16} << 10U;

}  // namespace

CapturedStderr::CapturedStderr() noexcept : text_(::memfd_create("stderr", MFD_CLOEXEC)) {
  static_cast<void>(std::fflush(stderr));
  if (text_.get() < 0) return;
  former_.emplace(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (former_->get() < 0 || ::dup2(text_.get(), STDERR_FILENO) < 0) former_.reset();
}

CapturedStderr::~CapturedStderr() {
  try {
    static_cast<void>(write_all(STDERR_FILENO, finish()));
  } catch (const std::exception&) {
    // Without memory for the text; standard error is as it was by now.
  }
}

void CapturedStderr::restore() noexcept {
  static_cast<void>(std::fflush(stderr));
  ::dup2(former_->get(), STDERR_FILENO);
  former_.reset();
}

std::string CapturedStderr::finish() {
  if (!former_) return "";
  restore();
  std::string text(kMostBytes, '\0');
  const auto got = read_fully(text_.get(), 0, std::as_writable_bytes(std::span(text)));
  text.resize(got.value_or(0));
  return text;
}

namespace {

/// The lines of a text, with "; " between. Quotes would be escaped.
std::string in_one_line(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    std::replace(line.begin(), line.end(), '\'', '"');
    out += (out.empty() ? "" : "; ") + line;
  }
  return printable(out);
}

/// 0, or why the device cannot be opened.
int device_error() {
  const Descriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  return device ? 0 : errno;
}

std::string what_to_do() {
  switch (device_error()) {
    case 0:
      break;
    case ENOENT:
    case ENODEV:
    case ENXIO:
      return "there is no /dev/fuse: run 'modprobe fuse', or start the container with "
             "'--device /dev/fuse --cap-add SYS_ADMIN'";
    case EPERM:
      return "the container's device cgroup forbids /dev/fuse: start it with '--device /dev/fuse', "
             "in Kubernetes with a device plugin";
    default:
      return "no permission to open /dev/fuse: set its mode to 0666, or mount as root";
  }
  constexpr const char* kRun =
      "; 'reshardfs run', with a command behind '--', mounts for this command without any right";
  const MountRights rights = mount_rights();
  if (rights.ignores_set_user_id) {
    return std::string(
               "no_new_privs disarms fusermount3, and the capability SYS_ADMIN is missing") +
           kRun;
  }
  if (::geteuid() != 0) {
    return std::string(
               "an unprivileged user needs fusermount3 (package fuse3), a mount point they own, "
               "and "
               "user_allow_other in /etc/fuse.conf for allow_other") +
           kRun;
  }
  return std::string("root needs the capability SYS_ADMIN, which a container must be given") + kRun;
}

/// What fusermount3 refuses to a user, and what libfuse lacks as root, by a part of the line.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kAnswers{{
    {"failed to execute /bin/mount", "install mount(8) (package mount), which libfuse runs"},
    {"setuid:", "allow setuid(2) in the service's SystemCallFilter: libfuse runs mount(8)"},
    {"user_allow_other", "add user_allow_other to that file as root, or leave allow_other out"},
    {"has no write access", "choose a mount point that you own"},
    {"not owned by user", "choose a mount point that you own"},
    {"mount_max", "unmount another one, or raise mount_max there as root"},
    {"mounting over filesystem type", "choose a mount point on an ordinary file system"},
}};

}  // namespace

Error unknown_mount_option(const std::string& told) {
  // "fuse: unknown option(s): `-o WORD'"
  constexpr std::string_view kBefore = "`-o ";
  const std::size_t begin = told.find(kBefore);
  const std::size_t end = told.rfind('\'');
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    const std::string line = in_one_line(told);
    return {ErrorKind::kUsage,
            "the mount options are not understood" + (line.empty() ? "" : ": " + line)};
  }
  const std::vector<std::string> known{"allow_other", "allow_root", "auto_unmount", "max_read",
                                       "nonempty",    "noatime",    "uid",          "gid"};
  const std::string word = told.substr(begin + kBefore.size(), end - begin - kBefore.size());
  return Error(ErrorKind::kUsage, "there is no mount option '" + printable(word) + "'")
      .hint(did_you_mean(word, known))
      .hint(
          "-o takes words of mount(8) and FUSE, and long options as key=value; values with commas "
          "stand in a file, config=FILE");
}

Error cannot_mount(const std::string& told) {
  const std::string line = in_one_line(told);
  Error error(ErrorKind::kIo, "cannot mount here" + (line.empty() ? "" : ": " + line));
  for (const auto& [part, answer] : kAnswers) {
    if (told.find(part) != std::string::npos) return error.hint(std::string(answer));
  }
  return error.hint(what_to_do() + "; " + kWithoutMount);
}

}  // namespace reshardfs
