// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "reshardfs/error.h"

#include "base/counters.h"
#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "storage/mapped_gather.h"

namespace reshardfs {
namespace {

constexpr const char* kChangedHint = "mount again when it is complete";

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

void require_regular(const struct stat& status, const std::filesystem::path& path) {
  if (S_ISREG(status.st_mode)) return;
  throw Error(ErrorKind::kBadInput, S_ISDIR(status.st_mode) ? "is a directory, not a regular file"
                                                            : "is not a regular file")
      .in_file(path.string());
}

/// @return nothing, with errno, if it cannot be opened.
DescriptorPtr try_open(const std::filesystem::path& path, DescriptorPool& pool) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer. Regular files ignore it.
  const auto open = [&] {
    return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  };
  int fd = open();
  if (fd < 0 && errno == EMFILE) {
    // The rest of the process has more files open than was left to it.
    pool.close_idle();
    fd = open();
  }
  return fd < 0 ? nullptr : std::make_shared<const Descriptor>(fd);
}

[[noreturn]] void throw_changed(const std::string& name, const std::string& what) {
  counters().source_changed();
  throw Error(ErrorKind::kChanged, what).in_file(name).hint(kChangedHint);
}

class LocalFile final : public ByteSource {
 public:
  /// @param descriptor kept if the pool has a place for it.
  LocalFile(DescriptorPtr descriptor, const std::filesystem::path& path, const struct stat& opened,
            DescriptorPool& pool);
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;
  ~LocalFile() override;

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return static_cast<std::uint64_t>(opened_.st_size); }
  std::int64_t mtime_ns() const override { return nanoseconds(opened_.st_mtim); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  bool gather(const Pieces& pieces, std::byte* out) const override;
  void check_unchanged() const override;
  DescriptorPtr descriptor() const override {
    return own_ ? own_ : pool_.get(this, [this] { return open_again(); });
  }

 private:
  DescriptorPtr open_again() const;
  /// Calls use(descriptor).
  template <typename Use>
  auto with_descriptor(Use&& use) const {
    if (own_) return use(own_->get());
    return use(descriptor()->get());
  }
  void require_same(const struct stat& now) const;

  DescriptorPool& pool_;
  DescriptorPtr own_;  ///< if it has a place
  std::string name_;
  std::filesystem::path absolute_;  ///< a daemon leaves the working directory
  struct stat opened_;
};

LocalFile::LocalFile(DescriptorPtr descriptor, const std::filesystem::path& path,
                     const struct stat& opened, DescriptorPool& pool)
    : pool_(pool), name_(path.string()), opened_(opened) {
  if (pool_.take_place()) {
    own_ = std::move(descriptor);
  } else {
    absolute_ = std::filesystem::absolute(path);
    // It is about to be read.
    pool_.get(this, [&] { return std::move(descriptor); });
  }
}

LocalFile::~LocalFile() {
  if (own_) {
    pool_.give_back_place();
  } else {
    pool_.forget(this);
  }
}

DescriptorPtr LocalFile::open_again() const {
  DescriptorPtr descriptor = try_open(absolute_, pool_);
  if (!descriptor && (errno == ENOENT || errno == ENOTDIR)) {
    throw_changed(name_, "has been removed or renamed while it was in use");
  }
  if (!descriptor) throw_open_error(name_, errno);
  struct stat now {};
  if (::fstat(descriptor->get(), &now) != 0) throw io_error("examine", name_, errno);
  require_same(now);
  return descriptor;
}

void LocalFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size() || out.size() > size() - offset) {
    throw Error(ErrorKind::kBadInput, std::to_string(out.size()) +
                                          " bytes were asked for, but the file has only " +
                                          std::to_string(size()))
        .in_file(name_)
        .at_offset(offset);
  }
  if (out.empty()) return;
  with_descriptor([&](int fd) {
    while (!out.empty()) {
      const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
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
  });
}

void LocalFile::require_same(const struct stat& now) const {
  if (same_content(opened_, now)) return;
  throw_changed(name_, now.st_size < opened_.st_size ? "has become shorter while it was in use"
                                                     : "has been changed while it was in use");
}

bool LocalFile::gather(const Pieces& pieces, std::byte* out) const {
  const std::uint64_t span = pieces.span();
  if (pieces.offset > size() || span > size() - pieces.offset) return false;
  if (!with_descriptor([&](int fd) { return gather_from_map(fd, pieces, out); })) return false;
  counters().source_read(pieces.count * pieces.length);
  return true;
}

void LocalFile::check_unchanged() const {
  with_descriptor([&](int fd) {
    struct stat now {};
    if (::fstat(fd, &now) != 0) throw io_error("examine", name_, errno);
    require_same(now);
  });
}

}  // namespace

ByteSourcePtr open_local_file(const std::filesystem::path& path) {
  return open_local_file(path, DescriptorPool::process());
}

ByteSourcePtr open_local_file(const std::filesystem::path& path, DescriptorPool& pool) {
  struct stat status {};
  // To open a device may do something: a watchdog begins to count, a tape is wound back.
  if (::stat(path.c_str(), &status) == 0) require_regular(status, path);
  DescriptorPtr descriptor = try_open(path, pool);
  if (!descriptor) throw_open_error(path.string(), errno);
  if (::fstat(descriptor->get(), &status) != 0) throw io_error("examine", path.string(), errno);
  require_regular(status, path);
  return std::make_shared<LocalFile>(std::move(descriptor), path, status, pool);
}

}  // namespace reshardfs
