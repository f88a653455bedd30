// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <utility>

#include "reshardfs/error.h"

#include "base/posix/file_times.h"
#include "base/process/counters.h"
#include "storage/byte_source.h"
#include "storage/descriptor_pool.h"
#include "storage/file_version.h"
#include "storage/local/file_system_type.h"
#include "storage/local/kept_maps.h"
#include "storage/local/linkless_tree.h"
#include "storage/local/local_identity.h"
#include "storage/local/mapped_gather.h"
#include "storage/local/measured_file.h"

namespace reshardfs {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void throw_open_error(const std::string& name, int errno_value) {
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
      throw Error(ErrorKind::kMissing, "no such file").in_file(name);
    case ENXIO:  // a socket, or a device without a driver
      throw Error(ErrorKind::kBadInput, "is not a regular file").in_file(name);
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

/// Where a file is, and how it is reached.
struct Place {
  std::filesystem::path path;
  LinklessTreePtr tree;  ///< nullptr: links are followed

  [[noreturn]] void fail_to_open(int errno_value) const {
    if (tree) throw linkless_error("open", path, errno_value);
    throw_open_error(path.string(), errno_value);
  }
  int open(int flags) const { return tree ? tree->open(path, flags) : ::open(path.c_str(), flags); }
  /// Opening a device has side effects: a watchdog begins to count, a tape is wound back.
  void require_no_device() const {
    struct stat status {};
    const bool found = tree ? tree->examine(path, status) : ::stat(path.c_str(), &status) == 0;
    if (!found) return;  // opening it reports the error
    if (S_ISLNK(status.st_mode)) throw link_refused(path);
    require_regular(status, path);
  }
};

/// @return nothing, with errno, if it cannot be opened.
DescriptorPtr try_open(const Place& place, DescriptorPool& pool) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer. Regular files ignore it.
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  // Allocated before the file is opened: if memory ran out later, the file would never be closed.
  const auto descriptor = std::make_shared<Descriptor>(-1);
  int fd = place.open(kFlags);
  if (fd < 0 && errno == EMFILE) {
    // The rest of the process has more files open than was left to it.
    pool.close_idle();
    fd = place.open(kFlags);
  }
  if (fd < 0) return nullptr;
  *descriptor = Descriptor(fd);
  return descriptor;
}

/// What network file systems, and those of other processes, say of an open file when their server
/// has been restarted. A timeout is not one of them: opening the file would wait just as long.
bool tells_of_lost_handle(const Error& error) noexcept {
  switch (error.os_error()) {
    case EIO:
    case ESTALE:
    case EBADF:
    case ENOTCONN:
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ESHUTDOWN:
    case EREMOTEIO:
      return true;
    default:
      return false;
  }
}

class LocalFile final : public ByteSource {
 public:
  /// @param descriptor kept if the pool has a place for it.
  LocalFile(DescriptorPtr descriptor, Place place, DescriptorPool& pool);
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;
  ~LocalFile() override;

  const std::string& name() const override { return version_.name(); }
  std::uint64_t size() const override {
    return static_cast<std::uint64_t>(version_.found().st_size);
  }
  std::int64_t mtime_ns() const override { return nanoseconds(version_.found().st_mtim); }
  FileStamp stamp() const override {
    const struct stat& found = version_.found();
    return {found.st_dev, found.st_ino, nanoseconds(found.st_ctim)};
  }
  std::string identity() const override { return local_identity(name(), version_.found()); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  bool gather(const StridedRanges& ranges, std::byte* out) const override;
  void check_unchanged() const override;
  DescriptorPtr descriptor() const override {
    return own_ ? own_ : pool_.get(this, [this] { return open_again(); });
  }

 private:
  DescriptorPtr open_again() const;
  /// Puts a new descriptor in the place of one that has failed.
  /// @return false if that is not possible, or the file is not known to be the same.
  bool renew_descriptor() const noexcept;
  /// Out of maps that are kept for the next time.
  bool gather_from_windows(const StridedRanges& ranges, std::byte* out) const;
  void forget_maps() const noexcept;
  /// Calls use(descriptor), and once more with a new one if the file system has forgotten it.
  template <typename Use>
  auto with_descriptor(Use&& use) const {
    const auto call = [&] { return own_ ? use(own_->get()) : use(descriptor()->get()); };
    try {
      return call();
    } catch (const Error& error) {
      if (!tells_of_lost_handle(error) || !renew_descriptor()) throw;
    }
    return call();
  }

  DescriptorPool& pool_;
  mutable std::atomic<bool> has_maps_{false};
  DescriptorPtr own_;  ///< if it has a place
  FileVersion version_;
  Place place_;  ///< where it is opened again
};

LocalFile::LocalFile(DescriptorPtr descriptor, Place place, DescriptorPool& pool)
    : pool_(pool), version_(descriptor->get(), place.path.string()) {
  require_regular(version_.found(), place.path);
  place_ = std::move(place);
  // A daemon leaves the working directory.
  if (!place_.tree) place_.path = std::filesystem::absolute(place_.path);
  if (pool_.take_place()) {
    own_ = std::move(descriptor);
  } else {
    // The file is about to be read.
    pool_.get(this, [&] { return std::move(descriptor); });
  }
}

LocalFile::~LocalFile() {
  forget_maps();
  if (own_) {
    pool_.give_back_place();
  } else {
    pool_.forget(this);
  }
}

DescriptorPtr LocalFile::open_again() const {
  DescriptorPtr descriptor = try_open(place_, pool_);
  if (!descriptor && (errno == ENOENT || errno == ENOTDIR)) {
    throw changed(name(), "has been removed or renamed while it was in use");
  }
  if (!descriptor) place_.fail_to_open(errno);
  version_.require_same(descriptor->get());
  return descriptor;
}

bool LocalFile::renew_descriptor() const noexcept {
  try {
    place_.require_no_device();
    const DescriptorPtr fresh = try_open(place_, pool_);
    struct statfs system {};
    // A disk that fails does so for every descriptor.
    if (!fresh || !version_.is_known_as(fresh->get()) || ::fstatfs(fresh->get(), &system) != 0 ||
        !is_remote_type(type_of(system))) {
      return false;
    }
    forget_maps();
    // The number stays, so that reads need no lock; those under way keep what they have.
    if (own_) return ::dup3(fresh->get(), own_->get(), O_CLOEXEC) >= 0;
    pool_.forget(this);  // it is opened once more
    return true;
  } catch (const std::exception&) {
    return false;  // the first error counts
  }
}

void LocalFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  require_in_source(*this, offset, out.size());
  if (out.empty()) return;
  with_descriptor([&](int fd) {
    while (!out.empty()) {
      const auto began = Clock::now();
      const ssize_t got = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        const int error = errno;
        counters().source_failed(SourceKind::kFile);
        errno = error;
      }
      if (got < 0) throw io_error("read", name(), errno).at_offset(offset);
      if (got == 0) {
        throw changed(name(), "has become shorter while it was in use").at_offset(offset);
      }
      counters().source_read(SourceKind::kFile, static_cast<std::uint64_t>(got),
                             Clock::now() - began);
      offset += static_cast<std::uint64_t>(got);
      out = out.subspan(static_cast<std::size_t>(got));
    }
  });
}

bool LocalFile::gather(const StridedRanges& ranges, std::byte* out) const {
  if (!ByteRange::whole(size()).contains(ranges.span())) return false;
  const auto began = Clock::now();
  // A kept map would keep a file open that shares its descriptor.
  const bool keeps = own_ && KeptMaps::process().keeps() && ranges.length() <= MapWindow::kOverlap;
  const bool done = keeps
                        ? gather_from_windows(ranges, out)
                        : with_descriptor([&](int fd) { return gather_from_map(fd, ranges, out); });
  if (done)
    counters().source_read(SourceKind::kFile, ranges.count() * ranges.length(),
                           Clock::now() - began);
  return done;
}

bool LocalFile::gather_from_windows(const StridedRanges& ranges, std::byte* out) const {
  for (std::uint64_t i = 0; i < ranges.count();) {
    const std::uint64_t offset = ranges.offset_of(i);
    const std::uint64_t number = offset / MapWindow::kStep;
    const std::uint64_t here = (number + 1) * MapWindow::kStep - offset;
    const StridedRanges part =
        ranges.part(i, ranges.stride() == 0 ? ranges.count() : (here - 1) / ranges.stride() + 1);
    const MapWindowPtr window = KeptMaps::process().get(this, number, own_->get(), size());
    if (!window) return false;
    has_maps_.store(true, std::memory_order_relaxed);
    const std::byte* const first = window->bytes().data() + offset % MapWindow::kStep;
    if (!gather_from_memory(window->bytes(), first, part, out + ranges.out_offset_of(i))) {
      forget_maps();
      return false;
    }
    i += part.count();
  }
  return true;
}

void LocalFile::forget_maps() const noexcept {
  if (has_maps_.exchange(false)) KeptMaps::process().forget(this);
}

void LocalFile::check_unchanged() const {
  try {
    with_descriptor([&](int fd) { version_.require_same(fd); });
  } catch (const Error&) {
    forget_maps();
    throw;
  }
}

}  // namespace

ByteSourcePtr open_local_file(const std::filesystem::path& path) {
  return open_local_file(path, DescriptorPool::process(), nullptr);
}

ByteSourcePtr open_local_file(const std::filesystem::path& path, DescriptorPool& pool) {
  return open_local_file(path, pool, nullptr);
}

ByteSourcePtr open_file(const std::filesystem::path& path, const SourceTreePtr& tree) {
  return tree ? tree->open_source(path) : open_file(path);
}

ByteSourcePtr LinklessTree::open_source(const std::filesystem::path& path) const {
  return measured(open_local_file(path, DescriptorPool::process(), shared_from_this()));
}

ByteSourcePtr open_local_file(const std::filesystem::path& path, DescriptorPool& pool,
                              const LinklessTreePtr& tree) {
  Place place{path, tree};
  place.require_no_device();
  DescriptorPtr descriptor = try_open(place, pool);
  if (!descriptor) place.fail_to_open(errno);
  return std::make_shared<LocalFile>(std::move(descriptor), std::move(place), pool);
}

}  // namespace reshardfs
