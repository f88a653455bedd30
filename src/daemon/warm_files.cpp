// SPDX-License-Identifier: Apache-2.0
#include "daemon/warm_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/posix/page_size.h"
#include "base/process/parallel.h"
#include "base/process/resource_limits.h"
#include "base/text/text.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

// The headers of Debian 12 lack both; the number is the same on all processors but alpha.
#ifdef SYS_cachestat
constexpr long kCachestat = SYS_cachestat;
#else
constexpr long kCachestat = 451;
#endif

/// struct cachestat_range; length 0 is up to the end of the file.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// struct cachestat, in pages.
struct Pages {
  std::uint64_t cached = 0;
  std::uint64_t dirty = 0;
  std::uint64_t written_back = 0;
  std::uint64_t evicted = 0;
  std::uint64_t recently_evicted = 0;
};

}  // namespace

std::optional<std::uint64_t> cached_bytes(int file) noexcept {
  Range all;
  Pages found;
  if (::syscall(kCachestat, file, &all, &found, 0U) != 0) return std::nullopt;
  return found.cached * page_bytes();
}

std::uint64_t available_memory() {
  constexpr const char* kFile = "/proc/meminfo";
  std::ifstream file(kFile);
  for (std::string key; file >> key;) {
    std::uint64_t kib = 0;
    if (key == "MemAvailable:" && file >> kib) return std::min(kib << 10U, memory_size());
    std::getline(file, key);
  }
  throw io_error("find out the available memory", kFile, EIO);
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = 1 << 20;
// Long enough for the kernel's read-ahead, and short enough that the threads end together.
constexpr std::uint64_t kPieceBytes = 64 << 20;

struct Piece {
  std::size_t file = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::vector<Piece> pieces_of(const std::vector<FileToWarm>& files) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::uint64_t at = 0; at < files[i].size; at += kPieceBytes) {
      pieces.push_back({i, at, std::min(at + kPieceBytes, files[i].size)});
    }
  }
  return pieces;
}

Descriptor open_file(const FileToWarm& file) {
  Descriptor opened(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (opened.get() < 0) throw io_error("open", file.path.string(), errno);
  return opened;
}

std::uint64_t bytes_of(const std::vector<FileToWarm>& files) {
  return std::accumulate(
      files.begin(), files.end(), std::uint64_t{0},
      [](std::uint64_t bytes, const FileToWarm& file) { return bytes + file.size; });
}

/// Collects the files to read, each once under the first of its names.
class Collection {
 public:
  void add(const fs::path& path) {
    const std::size_t before = found_;
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) {
      if (errno != ENOENT) throw io_error("look at", path.string(), errno);
      throw Error(ErrorKind::kMissing, "no such file or directory").in_file(path.string());
    }
    if (S_ISDIR(found.st_mode)) {
      add_directory(path);
    } else if (S_ISREG(found.st_mode)) {
      add_file(path, found);
    } else {
      throw Error(ErrorKind::kUsage, "not a file or a directory").in_file(path.string());
    }
    if (found_ == before) {
      throw Error(ErrorKind::kUsage, "holds nothing to read").in_file(path.string());
    }
  }

  std::vector<FileToWarm> files() && { return std::move(files_); }

 private:
  void add_directory(const fs::path& directory) {
    for (const DirectoryEntry& entry : list_directory(directory)) {
      if (entry.is_link) continue;
      const fs::path path = directory / entry.name;
      if (entry.is_directory) add_directory(path);
      struct stat found {};
      // A file that has gone since then needs no memory.
      if (entry.is_regular && ::lstat(path.c_str(), &found) == 0) add_file(path, found);
    }
  }

  void add_file(const fs::path& path, const struct stat& found) {
    if (!S_ISREG(found.st_mode) || found.st_size <= 0) return;
    ++found_;
    if (!known_.emplace(found.st_dev, found.st_ino).second) return;
    files_.push_back({path, static_cast<std::uint64_t>(found.st_size)});
  }

  std::set<std::pair<dev_t, ino_t>> known_;
  std::vector<FileToWarm> files_;
  std::size_t found_ = 0;  ///< files, under each of their names
};

/// The failures of files, the first of each.
class Failures {
 public:
  void note(std::size_t file, const std::string& message) {
    const std::lock_guard lock(mutex_);
    messages_.try_emplace(file, message);
  }
  bool has(std::size_t file) {
    const std::lock_guard lock(mutex_);
    return messages_.contains(file);
  }
  std::vector<std::string> messages() const {
    std::vector<std::string> all;
    for (const auto& [file, message] : messages_) all.push_back(message);
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::string> messages_;  // guarded by mutex_ while there are threads
};

class Warming {
 public:
  Warming(const std::vector<FileToWarm>& files, const WarmOptions& options)
      : files_(files), options_(options) {}

  void read(const Piece& piece) {
    if (failures_.has(piece.file)) return;
    const FileToWarm& file = files_[piece.file];
    try {
      if (options_.progress != nullptr && piece.begin == 0) {
        options_.progress->set_current(file.path.string());
      }
      read_piece(file, piece);
      if (options_.progress != nullptr && piece.end == file.size) options_.progress->add_file();
    } catch (const Error& error) {
      failures_.note(piece.file, error.what());
    }
  }

  Warmed result() const {
    return {.bytes = bytes_, .cached = cached(), .failures = failures_.messages()};
  }

 private:
  void read_piece(const FileToWarm& file, const Piece& piece) {
    const Descriptor opened = open_file(file);
    const auto buffer = std::make_unique_for_overwrite<char[]>(kReadBytes);  // NOLINT
    for (std::uint64_t at = piece.begin; at < piece.end;) {
      const auto wanted =
          static_cast<std::size_t>(std::min<std::uint64_t>(kReadBytes, piece.end - at));
      const ssize_t got = ::pread(opened.get(), buffer.get(), wanted, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw io_error("read", file.path.string(), errno);
      // The file has become shorter.
      if (got == 0) return;
      at += static_cast<std::uint64_t>(got);
      bytes_ += static_cast<std::uint64_t>(got);
      if (options_.progress != nullptr) {
        options_.progress->add_bytes(static_cast<std::uint64_t>(got));
      }
    }
  }

  std::optional<std::uint64_t> cached() const {
    std::uint64_t total = 0;
    for (const FileToWarm& file : files_) {
      const Descriptor opened(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
      const auto bytes = opened.get() < 0 ? std::nullopt : cached_bytes(opened.get());
      if (!bytes) return std::nullopt;
      // The last page has more bytes than the file.
      total += std::min(*bytes, file.size);
    }
    return total;
  }

  const std::vector<FileToWarm>& files_;
  const WarmOptions& options_;
  std::atomic<std::uint64_t> bytes_{0};
  Failures failures_;
};

}  // namespace

std::vector<FileToWarm> files_to_warm(const std::vector<fs::path>& paths) {
  Collection collection;
  for (const fs::path& path : paths) collection.add(path);
  return std::move(collection).files();
}

void require_memory_for(const std::vector<FileToWarm>& files) {
  const std::uint64_t bytes = bytes_of(files);
  const std::uint64_t available = available_memory();
  if (bytes <= available) return;
  throw Error(ErrorKind::kUsage, fmt::format("{}, {}: more than the available memory of {}",
                                             counted(files.size(), "file"), human_bytes(bytes),
                                             human_bytes(available)))
      .hint("name fewer files or directories, for example one rank's");
}

Warmed warm_files(const std::vector<FileToWarm>& files, const WarmOptions& options) {
  if (options.progress != nullptr) {
    options.progress->start("reading", bytes_of(files), files.size());
  }
  const std::vector<Piece> pieces = pieces_of(files);
  Warming warming(files, options);
  parallel_for(
      pieces.size(), [&](std::size_t i) { warming.read(pieces[i]); }, options.threads);
  return warming.result();
}

}  // namespace reshardfs
