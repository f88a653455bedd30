// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/machine_checks.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/posix/descriptor.h"
#include "base/posix/page_size.h"
#include "base/posix/read_write.h"
#include "base/text/numbers.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "fuse/mounting/passthrough.h"
#include "fuse/mounting/unmount.h"
#include "fuse/served_tree.h"
#include "storage/local/local_readers.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

// A set of a thousand ranks, and what the process has open beside it.
constexpr std::uint64_t kGoodOpenFiles = 4096;
// Of a mount: those that answer requests, and those that read slow files.
constexpr std::uint64_t kGoodProcesses = kMaxThreads + LocalReaders::Limits{}.at_once;
// Each file of a source is watched.
constexpr std::uint64_t kGoodWatches = 8192;
constexpr std::uint64_t kKeyBytes = 64 << 10;
constexpr int kRoot = 0;

/// The first two numbers of "6.1.0-18-amd64".
std::pair<int, int> version_of(std::string_view release) {
  const auto major = take_number<int>(release);
  if (!major || release.empty()) return {major.value_or(0), 0};
  release.remove_prefix(1);
  return {*major, take_number<int>(release).value_or(0)};
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  return parse_number<std::uint64_t>(first_line_of(path));
}

/// Whether a configuration of libfuse has the word alone in a line.
bool has_word(const fs::path& config, std::string_view word) {
  std::ifstream file(config);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    std::string more;
    words >> first;
    if (first == word && !(words >> more)) return true;
  }
  return false;
}

}  // namespace

std::string kernel_release() {
  utsname kernel{};
  ::uname(&kernel);
  return static_cast<const char*>(kernel.release);
}

std::optional<std::uint64_t> hard_limit(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_max == RLIM_INFINITY) {
    return std::nullopt;
  }
  return limit.rlim_max;
}

Finding check_device(const fs::path& device) {
  Finding finding{.name = "fuse-device"};
  if (const Descriptor opened(::open(device.c_str(), O_RDWR | O_CLOEXEC)); opened) {
    finding.message = device.string() + " can be opened";
    return finding;
  }
  const int error = errno;
  finding.health = Health::kFailed;
  finding.message = fmt::format("{}: {}", device.string(), std::strerror(error));
  finding.remedy = error == EACCES ? "sudo chmod 666 " + device.string()
                   : error == EPERM
                       ? "the container's device cgroup forbids it: start it with --device "
                         "/dev/fuse, in Kubernetes with a device plugin"
                       : "load the module (modprobe fuse); start a container with --device "
                         "/dev/fuse --cap-add SYS_ADMIN";
  return finding;
}

Finding check_right_to_mount(const MountRights& rights, const std::string& path) {
  Finding finding{.name = "mount-permission"};
  if (rights.has_capability) {
    finding.message = "has the capability SYS_ADMIN";
    return finding;
  }
  constexpr const char* kRunCommand =
      "'reshardfs run' mounts for one command without any right, if user namespaces are on";
  if (rights.ignores_set_user_id) {
    finding.health = Health::kFailed;
    finding.message = "no capability SYS_ADMIN, and no_new_privs disarms fusermount3";
    finding.remedy = kRunCommand;
    return finding;
  }
  const fs::path program = find_program("fusermount3", path);
  if (program.empty()) {
    finding.health = Health::kFailed;
    finding.message = "no capability SYS_ADMIN, and there is no fusermount3 in PATH";
    finding.remedy = std::string("sudo apt-get install fuse3; or ") + kRunCommand;
    return finding;
  }
  finding.message = program.string();
  if (!is_set_user_id_root(program)) {
    finding.health = Health::kFailed;
    finding.message += " is not set-user-ID root";
    finding.remedy = "sudo chmod u+s " + shell_word(program);
  } else if (std::error_code failed; !fs::exists(kListOfMounts, failed)) {
    finding.health = Health::kFailed;
    finding.message += " cannot unmount without /etc/mtab";
    finding.remedy = kMakeListOfMounts;
  }
  return finding;
}

Finding check_allow_other(bool is_root, bool needed, const fs::path& config) {
  Finding finding{.name = "allow-other"};
  if (is_root) {
    finding.message = "root may use --allow-other";
    return finding;
  }
  if (has_word(config, "user_allow_other")) {
    finding.message = config.string() + " has user_allow_other";
    return finding;
  }
  finding.health = needed ? Health::kFailed : Health::kWarning;
  finding.message = config.string() + " has no user_allow_other: --allow-other works only for root";
  finding.remedy = "echo user_allow_other | sudo tee -a " + config.string();
  return finding;
}

Finding check_kernel(const std::string& release) {
  Finding finding{.name = "kernel", .message = "Linux " + release};
  const std::pair version = version_of(release);
  if (version < std::pair{4, 20}) {
    finding.health = Health::kWarning;
    finding.message += ": reads go to the daemon in pieces of 128 KiB";
    finding.remedy = "Linux 4.20 and later ask for 1 MiB at once, which is faster";
  }
  return finding;
}

Finding check_request_size(const fs::path& limit) {
  Finding finding{.name = "request-size"};
  const auto pages = number_in(limit);
  if (!pages) {
    return skipped(finding.name, "this kernel has no setting for it (Linux 6.13 has)");
  }
  finding.message = "at most " + human_bytes(*pages * page_bytes());
  if (*pages < kRequestBytes / page_bytes()) {
    finding.health = Health::kWarning;
    finding.message += fmt::format("; reshardfs uses {}", human_bytes(kRequestBytes));
    finding.remedy =
        fmt::format("sysctl -w fs.fuse.max_pages_limit={}", kRequestBytes / page_bytes());
  }
  return finding;
}

Finding check_passthrough(const std::string& release, bool is_root, bool needed) {
  Finding finding{.name = "passthrough"};
  std::string lacks;
  if (!is_passthrough_built()) {
    lacks = "reshardfs was built with a libfuse before 3.17";
  } else if (version_of(release) < std::pair{6, 9}) {
    lacks = "this is Linux " + release + ", and 6.9 has it";
  } else if (!is_root) {
    lacks = "only root may use it";
  }
  if (lacks.empty()) {
    finding.message = "available";
    return finding;
  }
  if (!needed) return skipped(finding.name, "not available: " + lacks + "; no mount needs it");
  // The mount works all the same.
  finding.health = Health::kWarning;
  finding.message = "not available: " + lacks + "; reads go through reshardfs";
  finding.remedy = "remove the option 'passthrough'";
  return finding;
}

Finding check_io_uring(const fs::path& parameter) {
  const std::string value = first_line_of(parameter);
  return skipped("io-uring", fmt::format("FUSE over io_uring is {}; reshardfs does not use it",
                                         value.empty()  ? "not in this kernel"
                                         : value == "Y" ? "on"
                                                        : "off"));
}

Finding check_open_files(std::uint64_t soft, std::uint64_t hard) {
  Finding finding{.name = "open-files", .message = fmt::format("{}, at most {}", soft, hard)};
  if (hard < kGoodOpenFiles) {
    finding.health = Health::kWarning;
    finding.message += ": larger sets reuse them and are slower";
    finding.remedy = fmt::format("ulimit -Hn {}", kGoodOpenFiles);
  }
  return finding;
}

Finding check_processes(std::optional<std::uint64_t> most) {
  Finding finding{.name = "processes", .message = "no limit on threads and processes"};
  if (!most) return finding;
  finding.message = fmt::format("at most {} threads and processes of this user", *most);
  if (*most < kGoodProcesses) {
    finding.health = Health::kWarning;
    finding.message += fmt::format("; one mount may take {}", kGoodProcesses);
    finding.remedy = fmt::format("ulimit -Hu {}", kGoodProcesses);
  }
  return finding;
}

Finding check_watches(const fs::path& limits) {
  Finding finding{.name = "inotify-watches"};
  const auto most = number_in(limits / "max_user_watches");
  if (!most) return skipped(finding.name, "this kernel has no inotify");
  finding.message = fmt::format("at most {} of this user", *most);
  const Descriptor instance(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  const bool has_instance = instance.get() >= 0;
  const bool has_watch =
      has_instance && ::inotify_add_watch(instance.get(), "/proc/self", IN_ATTRIB) >= 0;
  if (has_watch && *most >= kGoodWatches) return finding;
  // Without them a source that is only renamed or linked counts as changed.
  finding.health = Health::kWarning;
  finding.message += has_watch ? ", one for each source file" : ", and all are in use";
  finding.message += ": sources without one count as changed when they are renamed or linked";
  finding.remedy =
      has_instance ? fmt::format("sysctl -w fs.inotify.max_user_watches={}",
                                 std::max(*most, kGoodWatches) * 8)
                   : fmt::format("sysctl -w fs.inotify.max_user_instances={}",
                                 number_in(limits / "max_user_instances").value_or(0) * 2 + 128);
  return finding;
}

Finding check_read_ahead(const fs::path& bdi) {
  Finding finding{.name = "read-ahead", .message = "can be set for each mount"};
  struct stat status {};
  // Only root may write the files of sysfs; a container may have it read-only for root too.
  if (::geteuid() == kRoot && ::access(bdi.c_str(), W_OK) == 0) return finding;
  if (::stat(bdi.c_str(), &status) != 0) {
    finding.message = "cannot be set: there is no " + bdi.string();
  } else {
    finding.message = "stays at the kernel's 128 KiB, as this user may not set it";
  }
  finding.health = Health::kWarning;
  finding.message += ": reading through maps is slower";
  finding.remedy = "the log of a mount has the command that root can run";
  return finding;
}

Finding check_locked_memory(std::optional<std::uint64_t> most) {
  Finding finding{.name = "memory-lock", .message = "keys can be kept out of the swap space"};
  if (!most || *most >= kKeyBytes || ::geteuid() == kRoot) return finding;
  finding.health = Health::kWarning;
  finding.message =
      fmt::format("only {} may be locked: the key of encrypted files may get into the swap space",
                  human_bytes(*most));
  finding.remedy = fmt::format("ulimit -Hl {}", kKeyBytes >> 10U);
  return finding;
}

Findings check_machine() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const char* const path = std::getenv("PATH");
  const bool is_root = ::geteuid() == kRoot;
  const std::string release = kernel_release();
  return {check_device(),
          check_right_to_mount(mount_rights(), path == nullptr ? "" : path),
          check_allow_other(is_root, false),
          check_kernel(release),
          check_request_size(),
          check_passthrough(release, is_root, false),
          check_io_uring(),
          check_open_files(files.rlim_cur, files.rlim_max),
          check_processes(is_root ? std::nullopt : hard_limit(RLIMIT_NPROC)),
          check_watches(),
          check_read_ahead()};
}

}  // namespace reshardfs
