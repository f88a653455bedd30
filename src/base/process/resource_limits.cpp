// SPDX-License-Identifier: Apache-2.0
#include "base/process/resource_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <string_view>

#include "base/posix/page_size.h"
#include "base/posix/read_write.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr rlim_t kKiB = 1024;

/// Names and values, with commas between them.
class Limits {
 public:
  const std::string& text() const noexcept { return text_; }

  void add(const std::string& name, const std::string& value) {
    text_ += (text_.empty() ? "" : ", ") + name + " (now " + value + ")";
  }
  /// @param unit what the value is divided by.
  void add_rlimit(__rlimit_resource resource, const std::string& name, rlim_t unit = 1,
                  const std::string& unit_name = "") {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    add(name, std::to_string(limit.rlim_cur / unit) + unit_name);
  }

 private:
  std::string text_;
};

bool is_limit(const std::string& value) {
  // The first version of control groups has no word for "none", but a number near 2^63.
  constexpr std::size_t kDigitsOfNone = 19;
  return !value.empty() && value != "max" && value.size() < kDigitsOfNone;
}

/// Calls visit(group, limit) for each group that has one, from `group` up to the root, until it
/// returns false.
template <typename Visit>
void for_each_group_limit(const fs::path& root, fs::path group, const std::string& file,
                          Visit&& visit) {
  for (group = group.relative_path();; group = group.parent_path()) {
    const std::string value = first_line_of(root / group / file);
    if (is_limit(value) && !visit(group, value)) return;
    if (group.empty()) return;
  }
}

/// A limit's file, as the second version of control groups calls it, and the first.
struct LimitFile {
  std::string_view controller;  ///< as the first version calls it
  std::string name;
  std::string old_name;
};

/// Calls visit(file, group, limit) for control groups of either version, or of both; one that
/// returns false has no use for the groups above.
template <typename Visit>
void for_each_group_limit(const LimitFile& limit, Visit&& visit) {
  const fs::path mounted = "/sys/fs/cgroup";
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    const auto look = [&](const fs::path& root, const std::string& file) {
      for_each_group_limit(root, group, file, [&](const fs::path& where, const std::string& value) {
        return visit(file, where, value);
      });
    };
    if (names == ",,") {
      look(mounted, limit.name);
    } else if (names.find("," + std::string(limit.controller) + ",") != std::string::npos) {
      look(mounted / limit.controller, limit.old_name);
    }
  }
}

const LimitFile kMemoryFile{"memory", "memory.max", "memory.limit_in_bytes"};
const LimitFile kThreadsFile{"pids", "pids.max", "pids.max"};

/// Adds the limit of the innermost group that has one.
void add_group_limit(const LimitFile& limit, Limits& limits) {
  for_each_group_limit(
      limit, [&](const std::string& file, const fs::path& group, const std::string& value) {
        limits.add(file + " of the control group /" + group.string(), value);
        return false;
      });
}

void add_memory(Limits& limits) {
  limits.add_rlimit(RLIMIT_AS, "ulimit -v", kKiB, " KiB");
  limits.add_rlimit(RLIMIT_DATA, "ulimit -d", kKiB, " KiB");
  add_group_limit(kMemoryFile, limits);
}

std::string exhausted(Resource resource) {
  switch (resource) {
    case Resource::kThreads:
      return "the machine has no more: see kernel.threads-max and kernel.pid_max (sysctl), and its "
             "free memory";
    case Resource::kMemory:
      return "the machine has no more: see its free memory, and vm.overcommit_memory (sysctl)";
    case Resource::kOpenFiles:
      return "the machine has no more: see fs.file-max (sysctl)";
    case Resource::kFileSize:
    case Resource::kStack:
      break;
  }
  return "the file system takes no larger files";
}

}  // namespace

std::string limit_hint(Resource resource) {
  Limits limits;
  switch (resource) {
    case Resource::kThreads:
      // The limit does not apply to root.
      if (::getuid() != 0) limits.add_rlimit(RLIMIT_NPROC, "ulimit -u");
      add_group_limit(kThreadsFile, limits);
      add_memory(limits);
      break;
    case Resource::kMemory:
      add_memory(limits);
      break;
    case Resource::kOpenFiles:
      limits.add_rlimit(RLIMIT_NOFILE, "ulimit -n");
      break;
    case Resource::kFileSize:
      limits.add_rlimit(RLIMIT_FSIZE, "ulimit -f", 1, " bytes");
      break;
    case Resource::kStack:
      limits.add_rlimit(RLIMIT_STACK, "ulimit -s", kKiB, " KiB");
      break;
  }
  if (limits.text().empty()) return exhausted(resource);
  return "raise the limit: " + limits.text();
}

std::string why_no_thread(const std::exception& error) {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  const std::string reason = no_memory ? "Cannot allocate memory" : error.what();
  return reason + "; " + limit_hint(Resource::kThreads);
}

std::string limit_hint_of(int errno_value) {
  switch (errno_value) {
    case EMFILE:
      return limit_hint(Resource::kOpenFiles);
    case ENFILE:
      return exhausted(Resource::kOpenFiles);
    case ENOMEM:
      return limit_hint(Resource::kMemory);
    case EFBIG:
      return limit_hint(Resource::kFileSize);
    default:
      return {};
  }
}

std::uint64_t memory_size() {
  const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0L));
  std::uint64_t least = pages * page_bytes();
  for_each_group_limit(kMemoryFile,
                       [&](const std::string&, const fs::path&, const std::string& value) {
                         std::uint64_t limit = 0;
                         const char* const end = value.data() + value.size();
                         if (std::from_chars(value.data(), end, limit).ptr == end) {
                           least = std::min(least, limit);
                         }
                         return true;
                       });
  return least;
}

bool is_address_space_limited() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

namespace {

// What a process holds besides its sources: /dev/fuse, logs, listings, the host program's own.
constexpr rlim_t kReserve = 256;

}  // namespace

void raise_open_file_limit(std::size_t files) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur >= static_cast<rlim_t>(files) + kReserve) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t open_file_limit() noexcept {
  rlimit limit{};
  // What POSIX grants every process.
  constexpr std::size_t kLeast = 20;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return static_cast<std::size_t>(limit.rlim_cur);
}

}  // namespace reshardfs
