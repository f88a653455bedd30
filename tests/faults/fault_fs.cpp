// SPDX-License-Identifier: Apache-2.0
/// fault_fs DIRECTORY MOUNTPOINT [--direct-io]: shows a directory read-only, and makes it misbehave
/// on demand.
///
/// What goes wrong is written to MOUNTPOINT/.faults, one rule a line; the first that matches an
/// operation decides. Writing replaces all rules, and lets go what a former rule has stalled.
///
///     PATTERN [operation=read|open|getattr] [from=BYTE] [to=BYTE] [chance=0..1] [count=N]
///             [delay=SECONDS] [stall] [error=NUMBER] [short=BYTES] [flip=BYTE]
///             [lost]
///
/// PATTERN is a glob over the path below the mount point, where * matches / too. `from` and `to`
/// choose the reads that touch these bytes; `count` ends a rule after so many operations. What
/// happens then: the operation waits, or stalls until the rules change; it fails with the errno; a
/// read gives at most `short` bytes, or has the byte at an offset of the file inverted. Without
/// --direct-io the kernel caches what was read, and takes a short answer for the end of the file.
/// With `lost` the rule is for files alone that were open when it was written, as a server that has
/// been restarted forgets them. MOUNTPOINT/.stalled has the number of operations that are stalled
/// now.
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fuse3/fuse.h>

namespace {

constexpr std::string_view kControlPath = "/.faults";
constexpr std::string_view kStalledPath = "/.stalled";
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

struct Rule {
  std::string pattern;
  std::string operation = "read";
  std::uint64_t from = 0;
  std::uint64_t to = kNever;
  double chance = 1;
  std::uint64_t count = kNever;  ///< of operations that it still applies to
  std::chrono::duration<double> delay{0};
  bool stalls = false;
  int error = 0;
  std::uint64_t at_most = kNever;
  std::uint64_t flipped = kNever;
  bool lost = false;
};

/// @throws std::exception if the line is no rule
Rule parse_rule(const std::string& line) {
  std::istringstream words(line);
  Rule rule;
  words >> rule.pattern;
  for (std::string word; words >> word;) {
    const std::size_t sign = word.find('=');
    const std::string key = word.substr(0, sign);
    const std::string value = sign == std::string::npos ? "" : word.substr(sign + 1);
    if (key == "operation") {
      rule.operation = value;
    } else if (key == "from") {
      rule.from = std::stoull(value);
    } else if (key == "to") {
      rule.to = std::stoull(value);
    } else if (key == "chance") {
      rule.chance = std::stod(value);
    } else if (key == "count") {
      rule.count = std::stoull(value);
    } else if (key == "delay") {
      rule.delay = std::chrono::duration<double>(std::stod(value));
    } else if (key == "stall") {
      rule.stalls = true;
    } else if (key == "error") {
      rule.error = std::stoi(value);
    } else if (key == "short") {
      rule.at_most = std::stoull(value);
    } else if (key == "lost") {
      rule.lost = true;
    } else if (key == "flip") {
      rule.flipped = std::stoull(value);
    } else {
      throw std::invalid_argument(word);
    }
  }
  return rule;
}

class Faults {
 public:
  /// @throws std::exception if a line is no rule; then the rules stay as they were.
  void replace(const std::string& text) {
    std::vector<Rule> rules;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) rules.push_back(parse_rule(line));
    }
    {
      const std::lock_guard lock(mutex_);
      rules_ = std::move(rules);
      text_ = text;
      ++generation_;
    }
    changed_.notify_all();
  }

  std::string text_of(std::string_view path) const {
    const std::lock_guard lock(mutex_);
    return path == kStalledPath ? std::to_string(stalled_) : text_;
  }

  /// When a file is opened: counts the changes of the rules.
  std::uint64_t now() const {
    const std::lock_guard lock(mutex_);
    return generation_;
  }

  /// Waits as the rule says that matches, and returns it; one without effect if none does.
  /// @param opened now() of then.
  Rule apply(const char* path, std::string_view operation, std::uint64_t begin = 0,
             std::uint64_t end = kNever, std::uint64_t opened = 0) {
    std::unique_lock lock(mutex_);
    const Rule rule = match(path, operation, begin, end, opened);
    const std::uint64_t generation = generation_;
    const auto is_over = [&] { return generation_ != generation; };
    if (rule.stalls) {
      ++stalled_;
      changed_.wait(lock, is_over);
      --stalled_;
    }
    if (rule.delay.count() > 0) changed_.wait_for(lock, rule.delay, is_over);
    return rule;
  }

 private:
  Rule match(const char* path, std::string_view operation, std::uint64_t begin, std::uint64_t end,
             std::uint64_t opened) {
    for (Rule& rule : rules_) {
      if (rule.operation != operation || rule.count == 0 || end <= rule.from || begin >= rule.to ||
          ::fnmatch(rule.pattern.c_str(), path + 1, 0) != 0 || chance_(random_) >= rule.chance ||
          (rule.lost && opened == generation_)) {
        continue;
      }
      if (rule.count != kNever) --rule.count;
      return rule;
    }
    return {};
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rule> rules_;
  std::string text_;
  std::uint64_t generation_ = 0;
  std::uint64_t stalled_ = 0;
  std::mt19937_64 random_{1};
  std::uniform_real_distribution<double> chance_{0, 1};
};

/// What the kernel's handle of an open file or directory leads to.
struct Opened {
  std::string path{};
  int fd = -1;
  std::uint64_t when = 0;
};

void keep(fuse_file_info* info, Opened file) {
  // NOLINTNEXTLINE: close_handle() deletes it
  info->fh = reinterpret_cast<std::uint64_t>(new Opened(std::move(file)));
}

Opened& opened(const fuse_file_info* info) {
  return *reinterpret_cast<Opened*>(info->fh);  // NOLINT: as libfuse keeps it
}

Faults faults;
int directory = -1;
bool direct_io = false;

bool is_control(const char* path) {
  return path == kControlPath || path == kStalledPath;
}

/// Below `directory`, for the *at() calls.
const char* relative(const char* path) {
  return path[1] == '\0' ? "." : path + 1;
}

/// Of operations on what is open, libfuse gives no path: see initialise().
const char* path_of(const char* path, const fuse_file_info* info) {
  return path != nullptr ? path : opened(info).path.c_str();
}

int get_attributes(const char* given, struct stat* out, fuse_file_info* info) {
  const char* const path = path_of(given, info);
  if (is_control(path)) {
    *out = {};
    out->st_mode = S_IFREG | 0600;
    out->st_nlink = 1;
    out->st_uid = ::geteuid();
    out->st_size = static_cast<off_t>(faults.text_of(path).size());
    return 0;
  }
  const Rule rule = faults.apply(path, "getattr");
  if (rule.error != 0) return -rule.error;
  return ::fstatat(directory, relative(path), out, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
}

int read_link(const char* path, char* out, std::size_t size) {
  const ssize_t length = ::readlinkat(directory, relative(path), out, size - 1);
  if (length < 0) return -errno;
  out[length] = '\0';
  return 0;
}

int open_directory(const char* path, fuse_file_info* info) {
  keep(info, {path});
  return 0;
}

int read_directory(const char* given, void* out, fuse_fill_dir_t fill, off_t, fuse_file_info* info,
                   fuse_readdir_flags) {
  const char* const path = path_of(given, info);
  const int fd = ::openat(directory, relative(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -errno;
  DIR* stream = ::fdopendir(fd);
  while (const dirent* entry = ::readdir(stream)) {
    fill(out, entry->d_name, nullptr, 0, fuse_fill_dir_flags{});
  }
  ::closedir(stream);
  return 0;
}

int open_file(const char* path, fuse_file_info* info) {
  if (is_control(path)) {
    info->direct_io = 1;
    keep(info, {path});
    return 0;
  }
  if ((info->flags & O_ACCMODE) != O_RDONLY) return -EROFS;
  const Rule rule = faults.apply(path, "open");
  if (rule.error != 0) return -rule.error;
  const int fd = ::openat(directory, relative(path), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  keep(info, {path, fd, faults.now()});
  info->direct_io = direct_io;
  return 0;
}

int read_bytes(const char* given, char* out, std::size_t size, off_t offset, fuse_file_info* info) {
  const char* const path = path_of(given, info);
  const auto begin = static_cast<std::uint64_t>(offset);
  if (is_control(path)) {
    const std::string text = faults.text_of(path);
    if (begin >= text.size()) return 0;
    return static_cast<int>(text.copy(out, size, begin));
  }
  const Opened& file = opened(info);
  const Rule rule = faults.apply(path, "read", begin, begin + size, file.when);
  if (rule.error != 0) return -rule.error;
  const ssize_t count = ::pread(file.fd, out, std::min<std::uint64_t>(size, rule.at_most), offset);
  if (count < 0) return -errno;
  if (rule.flipped >= begin && rule.flipped - begin < static_cast<std::uint64_t>(count)) {
    char& byte = out[rule.flipped - begin];
    byte = static_cast<char>(~byte);
  }
  return static_cast<int>(count);
}

int write_bytes(const char* given, const char* bytes, std::size_t size, off_t,
                fuse_file_info* info) {
  if (path_of(given, info) != kControlPath) return -EROFS;
  try {
    faults.replace(std::string(bytes, size));
    return static_cast<int>(size);
  } catch (const std::exception&) {
    return -EINVAL;
  }
}

int truncate_file(const char* path, off_t, fuse_file_info* info) {
  return is_control(path_of(path, info)) ? 0 : -EROFS;
}

int close_handle(const char*, fuse_file_info* info) {
  const std::unique_ptr<Opened> file(&opened(info));
  if (file->fd >= 0) ::close(file->fd);
  return 0;
}

/// Nothing is kept: what the directory has now counts, and every read meets the rules.
void* initialise(fuse_conn_info* connection, fuse_config* config) {
  // Stalled reads must not keep the kernel from sending others.
  connection->max_background = 4096;
  config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
  config->use_ino = 1;
  // To tell a path, libfuse locks it until the operation ends. What the kernel says of an inode
  // that it forgets waits for that in a thread that libfuse still counts as free: with a stalled
  // read on each other one, nobody would be left to take the next request.
  config->nullpath_ok = 1;
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: fault_fs DIRECTORY MOUNTPOINT [--direct-io] [-o OPTION]... [-f]\n", stderr);
    return 2;
  }
  directory = ::open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) {
    std::perror(argv[1]);
    return 3;
  }
  fuse_operations operations{};
  operations.init = initialise;
  operations.getattr = get_attributes;
  operations.readlink = read_link;
  operations.opendir = open_directory;
  operations.readdir = read_directory;
  operations.releasedir = close_handle;
  operations.open = open_file;
  operations.read = read_bytes;
  operations.write = write_bytes;
  operations.truncate = truncate_file;
  operations.release = close_handle;
  std::vector<char*> arguments(argv + 1, argv + argc);
  arguments[0] = argv[0];
  direct_io = std::erase_if(arguments, [](const char* word) {
                return std::string_view(word) == "--direct-io";
              }) > 0;
  return fuse_main(static_cast<int>(arguments.size()), arguments.data(), &operations, nullptr);
}
