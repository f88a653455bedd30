// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/byte_range.h"
#include "storage/strided_ranges.h"

namespace reshardfs {

class Descriptor;

/// Distinguishes a file from another one with the same name, and from itself with other bytes but
/// the old modification time.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t ctime_ns = 0;
};

/// A part of a source, with the memory into which it is read.
struct ReadRequest {
  std::uint64_t offset = 0;
  std::span<std::byte> out{};
  /// Announced with foresee(), according to a plan: the source need not guess what comes next.
  bool foreseen = false;
};

/// How soon foreseen ranges will be read.
enum class Foresight : std::uint8_t {
  kNow,    ///< by this thread, immediately
  kApart,  ///< the same; the bytes between the ranges will not be needed
  kAhead,  ///< if the reader continues as before
};

/// A sequence of bytes of known size that can be read at any offset: a local file, an object on a
/// server, or in tests a memory buffer or a decorator that fails, delays or counts. Every member
/// function may be called from any number of threads at once.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  /// Its name in messages: the path as the user knows it.
  virtual const std::string& name() const = 0;
  /// Size in bytes when it was opened.
  virtual std::uint64_t size() const = 0;
  /// Modification time when it was opened, nanoseconds since the epoch.
  virtual std::int64_t mtime_ns() const = 0;
  /// The stamp of the underlying file when it was opened; zeros if there is no such file.
  virtual FileStamp stamp() const { return {}; }
  /// Identifies these bytes among all files and their versions on this machine; empty if they
  /// cannot be identified with certainty. Call this right after opening the source.
  virtual std::string identity() const { return {}; }

  /// Fills all of `out` from `offset` on, or throws; never fewer bytes.
  /// @throws Error kBadInput if the range leaves the source, kChanged if the source has become
  ///         shorter, kIo with the errno otherwise.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;

  /// Like read_at() for each part; a remote source gets the requests for all parts at once.
  virtual void read_many(std::span<const ReadRequest> parts) const {
    for (const ReadRequest& part : parts) read_at(part.offset, part.out);
  }

  /// Whether calling foresee() is worthwhile, because the latency of a request exceeds its transfer
  /// time by far.
  virtual bool is_far() const noexcept { return false; }

  /// Whether it is read by requests to a server. Each request has a time limit, and the stamp is
  /// made of the server's version of the object. Reads of a file, in contrast, may hang with the
  /// file system.
  virtual bool is_remote() const noexcept { return false; }

  /// Begins to fetch ranges that will be read, without waiting for them. Never fails: a read of the
  /// ranges reports the error. Does nothing if is_far() is false.
  virtual void foresee(std::span<const ByteRange> /*ranges*/, Foresight /*when*/) const noexcept {}

  /// Copies ranges to `out` without reading the bytes between them, if the source can do that.
  /// @return false if it cannot; `out` is then undefined. Use read_at() instead, which also reports
  ///         errors of the source.
  virtual bool gather(const StridedRanges& /*ranges*/, std::byte* /*out*/) const { return false; }

  /// Call this after a batch of reads, before using their bytes, so that versions are never mixed:
  /// checks that the source has not changed since it was opened (device, inode, size, mtime,
  /// ctime).
  /// @throws Error kChanged with the file's name and what to do.
  virtual void check_unchanged() const = 0;

  /// The open file that contains these bytes unchanged and at the same offsets; nullptr if there is
  /// none. It stays open while the pointer is held.
  /// @throws Error kMissing, kChanged or kIo if it had to be opened again.
  virtual std::shared_ptr<const Descriptor> descriptor() const { return nullptr; }
};

using ByteSourcePtr = std::shared_ptr<const ByteSource>;

inline void read_part(const ByteSource& source, const ReadRequest& part) {
  if (!part.foreseen) return source.read_at(part.offset, part.out);
  source.read_many({&part, 1});
}

/// For read_at() of a source. @throws Error kBadInput if the range leaves it.
void require_in_source(const ByteSource& source, std::uint64_t offset, std::uint64_t length);

class DescriptorPool;

/// Opens a regular file read-only (close-on-exec, never blocking on a FIFO or a device). If the
/// process reaches its limit of open files, files are closed between reads and opened again. If the
/// file has changed by then, the read fails with kChanged.
/// @throws Error kMissing if the file does not exist, kBadInput if it is not a regular file, kIo.
ByteSourcePtr open_local_file(const std::filesystem::path& path);
/// @param pool keeps the descriptors; must outlive the source.
ByteSourcePtr open_local_file(const std::filesystem::path& path, DescriptorPool& pool);

/// Opens a file by its path or URL, with the backend for it; see backend.h.
/// @throws Error as open_local_file(), and of other kinds as the backend fails.
ByteSourcePtr open_file(const std::filesystem::path& path);

}  // namespace reshardfs
