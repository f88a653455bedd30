// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_checks.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/checkpoint.h"
#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "cli/app.h"
#include "cli/demo_process.h"
#include "format/ckpt/ckpt.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

// A set of a thousand ranks, and what the process has open beside it.
constexpr std::uint64_t kGoodOpenFiles = 4096;

/// The first two numbers of "6.1.0-18-amd64".
std::pair<int, int> version_of(std::string_view release) {
  const auto major = take_number<int>(release);
  if (!major || release.empty()) return {major.value_or(0), 0};
  release.remove_prefix(1);
  return {*major, take_number<int>(release).value_or(0)};
}

/// @return empty if there is none.
fs::path find_program(const std::string& name, const std::string& path) {
  std::istringstream directories(path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const fs::path program = fs::path(directory.empty() ? "." : directory) / name;
    if (::access(program.c_str(), X_OK) == 0 && fs::is_regular_file(program)) return program;
  }
  return {};
}

constexpr const char* kSeeAbove = "look at the lines above that begin with 'reshardfs:'";

/// A directory with a small checkpoint and a mount point; takes both away.
class RoundTrip {
 public:
  RoundTrip() : directory_(make_temporary_directory("reshardfs-doctor-")) {
    fs::create_directory(mountpoint());
    const std::string content = "sixteen bytes...";
    bytes_ = ckpt::record_header("w", DType::kFloat32, {2, 2}, content.size()) + content;
    std::ofstream out(source(), std::ios::binary);
    out << bytes_;
    if (!out.flush()) throw io_error("write", source(), errno);
  }
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;
  ~RoundTrip() {
    if (mounted_) run_self({"umount", mountpoint()});
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  fs::path source() const { return directory_ / "sample.ckpt"; }
  fs::path mountpoint() const { return directory_ / "mnt"; }

  /// What each step says is on standard error, above what is reported.
  void run() {
    if (run_self({"mount", source(), mountpoint(), "--quiet"}) != kExitDone) {
      throw Error(ErrorKind::kIo, "mounting failed").hint(kSeeAbove);
    }
    mounted_ = true;
    const fs::path shown = mountpoint() / "merged" / "checkpoint_merged.ckpt";
    std::ifstream in(shown, std::ios::binary);
    const std::string found((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    in.close();  // a file that is open keeps the mount busy
    if (found != bytes_) throw Error(ErrorKind::kIo, "has unexpected bytes").in_file(shown);
    if (run_self({"umount", mountpoint()}) != kExitDone) {
      throw Error(ErrorKind::kIo, "unmounting failed").hint(kSeeAbove);
    }
    mounted_ = false;
  }

 private:
  fs::path directory_;
  std::string bytes_;
  bool mounted_ = false;
};

}  // namespace

Finding check_device(const fs::path& device) {
  Finding finding{.what = "FUSE device"};
  const int fd = ::open(device.c_str(), O_RDWR | O_CLOEXEC);
  if (fd >= 0) {
    ::close(fd);
    finding.found = device.string() + " can be opened";
    return finding;
  }
  const int error = errno;
  finding.health = Health::kBad;
  finding.found = fmt::format("{}: {}", device.string(), std::strerror(error));
  finding.advice = error == EACCES ? "chmod 666 " + device.string() + ", or mount as root"
                   : error == EPERM
                       ? "the container forbids it: start it with --device /dev/fuse"
                       : "load the module (modprobe fuse); start a container with --device "
                         "/dev/fuse --cap-add SYS_ADMIN";
  return finding;
}

Finding check_right_to_mount(bool is_root, const std::string& path) {
  Finding finding{.what = "permission to mount"};
  if (is_root) {
    finding.found = "running as root";
    return finding;
  }
  const fs::path program = find_program("fusermount3", path);
  if (program.empty()) {
    finding.health = Health::kBad;
    finding.found = "not root, and there is no fusermount3 in PATH";
    finding.advice = "install the package fuse3, or mount as root";
    return finding;
  }
  struct stat status {};
  const bool set_user_id = ::stat(program.c_str(), &status) == 0 &&
                           (status.st_mode & S_ISUID) != 0 && status.st_uid == 0;
  finding.found = program.string();
  if (!set_user_id) {
    finding.health = Health::kBad;
    finding.found += " is not set-user-ID root";
    finding.advice = "install the package fuse3 again; in a container, mount as its root";
  }
  return finding;
}

Finding check_kernel(const std::string& release) {
  Finding finding{.what = "kernel", .found = "Linux " + release};
  const std::pair version = version_of(release);
  if (version < std::pair{4, 20}) {
    finding.health = Health::kLimited;
    finding.found += ": reads go to the daemon in pieces of 128 KiB";
    finding.advice = "Linux 4.20 and later ask for 1 MiB at once, which is faster";
  }
  return finding;
}

Finding check_open_files(std::uint64_t soft, std::uint64_t hard) {
  Finding finding{.what = "open files", .found = fmt::format("{}, at most {}", soft, hard)};
  if (hard < kGoodOpenFiles) {
    finding.health = Health::kLimited;
    finding.advice = fmt::format(
        "larger sets reuse them and are slower; raise the limit: ulimit -Hn {}", kGoodOpenFiles);
  }
  return finding;
}

Finding check_read_ahead(const fs::path& bdi) {
  Finding finding{.what = "read-ahead", .found = "can be set for each mount"};
  struct stat status {};
  // Only root may write the files of sysfs; a container may have it read-only for root too.
  if (::geteuid() == 0 && ::access(bdi.c_str(), W_OK) == 0) return finding;
  if (::stat(bdi.c_str(), &status) != 0) {
    finding.found = "cannot be set: there is no " + bdi.string();
  } else {
    finding.found = "stays at the kernel's 128 KiB, as this user may not set it";
  }
  finding.health = Health::kLimited;
  finding.advice = "reading through maps is slower; the log of a mount says what root can run";
  return finding;
}

Finding check_source(const fs::path& source) {
  Finding finding{.what = source.string()};
  try {
    const CheckpointContents contents = read_contents(source, {});
    std::uint64_t bytes = 0;
    for (const CheckpointFile& file : contents.files) bytes += file.bytes;
    finding.found =
        fmt::format("readable; files: {}, kinds of parameters: {}, {}", contents.files.size(),
                    contents.parameters.size(), human_bytes(bytes));
  } catch (const Error& error) {
    finding.health = Health::kBad;
    finding.found = error.what();
  }
  return finding;
}

Finding check_round_trip() {
  Finding finding{.what = "mount, read, unmount", .found = "a sample was read back byte for byte"};
  try {
    RoundTrip().run();
  } catch (const std::exception& error) {  // of <filesystem> too: there is no $TMPDIR
    finding.health = Health::kBad;
    finding.found = error.what();
  }
  return finding;
}

std::vector<Finding> examine(const std::vector<std::string>& sources) {
  utsname kernel{};
  ::uname(&kernel);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const char* const path = std::getenv("PATH");
  std::vector<Finding> findings{
      check_device(), check_right_to_mount(::geteuid() == 0, path == nullptr ? "" : path),
      check_kernel(static_cast<const char*>(kernel.release)),
      check_open_files(files.rlim_cur, files.rlim_max), check_read_ahead()};
  for (const std::string& source : sources) findings.push_back(check_source(source));
  findings.push_back(check_round_trip());
  return findings;
}

}  // namespace reshardfs
