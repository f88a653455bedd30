// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "reshardfs/error.h"

#include "base/counters.h"
#include "storage/byte_source.h"

namespace reshardfs {
namespace {

constexpr const char* kChangedHint = "mount again when it is complete";

/// A file descriptor that is closed when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

std::int64_t nanoseconds(const timespec& time) noexcept {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// Whether the file still holds the bytes that it held when `before` was taken.
bool same_content(const struct stat& before, const struct stat& now) noexcept {
  const bool same = before.st_dev == now.st_dev && before.st_ino == now.st_ino &&
                    before.st_size == now.st_size &&
                    nanoseconds(before.st_mtim) == nanoseconds(now.st_mtim);
  // The change time betrays a writer that sets the modification time back. But deleting a file,
  // or renaming another over it, moves the change time as well, and a file that is held open
  // keeps its bytes: then the number of links tells the two apart.
  return same && (before.st_nlink != now.st_nlink ||
                  nanoseconds(before.st_ctim) == nanoseconds(now.st_ctim));
}

class LocalFile final : public ByteSource {
 public:
  LocalFile(Descriptor fd, std::string name, const struct stat& opened)
      : fd_(std::move(fd)), name_(std::move(name)), opened_(opened) {}

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return static_cast<std::uint64_t>(opened_.st_size); }
  std::int64_t mtime_ns() const override { return nanoseconds(opened_.st_mtim); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  void check_unchanged() const override;

 private:
  Descriptor fd_;
  std::string name_;
  struct stat opened_;
};

void LocalFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size() || out.size() > size() - offset) {
    throw Error(ErrorKind::kBadInput, std::to_string(out.size()) +
                                          " bytes were asked for, but the file has only " +
                                          std::to_string(size()))
        .in_file(name_)
        .at_offset(offset);
  }
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error("read", name_, errno).at_offset(offset);
    if (got == 0) {
      counters().source_changed();
      throw Error(ErrorKind::kChanged, "has become shorter while it was in use")
          .in_file(name_)
          .at_offset(offset)
          .hint(kChangedHint);
    }
    counters().source_read(static_cast<std::uint64_t>(got));
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

void LocalFile::check_unchanged() const {
  struct stat now {};
  if (::fstat(fd_.get(), &now) != 0) throw io_error("examine", name_, errno);
  if (same_content(opened_, now)) return;
  counters().source_changed();
  throw Error(ErrorKind::kChanged, now.st_size < opened_.st_size
                                       ? "has become shorter while it was in use"
                                       : "has been changed while it was in use")
      .in_file(name_)
      .hint(kChangedHint);
}

[[noreturn]] void throw_open_error(const std::string& name, int errno_value) {
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
      throw Error(ErrorKind::kMissing, "there is no such file").in_file(name);
    case ENXIO:  // a socket, or a device without a driver
      throw Error(ErrorKind::kBadInput, "is not a regular file").in_file(name);
    case EMFILE:
      throw io_error("open", name, errno_value).hint("raise the limit with ulimit -n");
    default:
      throw io_error("open", name, errno_value);
  }
}

}  // namespace

ByteSourcePtr open_local_file(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer. Regular files ignore it.
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd.get() < 0) throw_open_error(path.string(), errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw io_error("examine", path.string(), errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorKind::kBadInput, S_ISDIR(status.st_mode) ? "is a directory, not a regular file"
                                                              : "is not a regular file")
        .in_file(path.string());
  }
  return std::make_shared<LocalFile>(std::move(fd), path.string(), status);
}

}  // namespace reshardfs
