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

/// What tells a file from another one that has taken its name, or from itself with other bytes and
/// the old modification time.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t ctime_ns = 0;
};

/// A part of a source that is read into a place of its own.
struct ReadRequest {
  std::uint64_t offset = 0;
  std::span<std::byte> out{};
};

/// How soon what is foreseen will be read.
enum class Foresight : std::uint8_t {
  kNow,    ///< by this thread, as soon as it has told
  kApart,  ///< the same; nobody will want what lies between the ranges
  kAhead,  ///< if the reader goes on as it has begun
};

/// A sequence of bytes of known size that can be read at any place: a local file, an object of a
/// server, and in tests a memory buffer or a decorator that fails, delays or counts.
/// Every member function may be called from any number of threads at once.
class ByteSource {
 public:
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  virtual ~ByteSource() = default;

  /// What messages call it: the path as the user knows it.
  virtual const std::string& name() const = 0;
  /// Bytes, as found when it was opened.
  virtual std::uint64_t size() const = 0;
  /// Modification time when it was opened, nanoseconds since the epoch.
  virtual std::int64_t mtime_ns() const = 0;
  /// Of the file whose bytes these are, as it was when it was opened; zeros if there is none.
  virtual FileStamp stamp() const { return {}; }
  /// Tells these bytes from all others, of this file at another time and of any other file, on this
  /// machine and as long as it lives; empty if nothing does for certain. To be asked for when the
  /// source has just been opened.
  virtual std::string identity() const { return {}; }

  /// Fills all of `out` from `offset` on, or throws; never fewer bytes.
  /// @throws Error kBadInput if the range leaves the source, kChanged if the source has become
  ///         shorter, kIo with the errno otherwise.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;

  /// As read_at() for each part; a source far away is asked for all of them at once.
  virtual void read_many(std::span<const ReadRequest> parts) const {
    for (const ReadRequest& part : parts) read_at(part.offset, part.out);
  }

  /// Whether it pays to tell with foresee() what will be read: each request of this source takes
  /// much longer than the bytes that it brings.
  virtual bool is_far() const noexcept { return false; }

  /// Whether it is read by requests to a server, each of which has a limit in time, and its stamp
  /// is made of what the server tells its versions apart by. A read of a file may hang with the
  /// file system.
  virtual bool is_remote() const noexcept { return false; }

  /// Begins to fetch what will be read, without waiting for it. Never fails: who reads the ranges
  /// gets the error. Nothing where is_far() is false.
  virtual void foresee(std::span<const ByteRange> /*ranges*/, Foresight /*when*/) const noexcept {}

  /// Copies ranges to `out` without reading what lies between them, where a source can do that.
  /// @return false if it cannot; `out` is then undefined, and read_at() is the way, which also
  ///         tells what is wrong with the source if something is.
  virtual bool gather(const StridedRanges& /*ranges*/, std::byte* /*out*/) const { return false; }

  /// Called after a batch of reads, before their bytes are given out: a source that is not what
  /// it was when it was opened (device, inode, size, mtime, ctime) must not be mixed in.
  /// @throws Error kChanged with the file's name and what to do.
  virtual void check_unchanged() const = 0;

  /// The open file whose bytes these are, unchanged and at the same offsets; nullptr if there is no
  /// such file. It stays open for as long as it is held.
  /// @throws Error kMissing, kChanged or kIo if it had to be opened again.
  virtual std::shared_ptr<const Descriptor> descriptor() const { return nullptr; }
};

using ByteSourcePtr = std::shared_ptr<const ByteSource>;

/// For read_at() of a source. @throws Error kBadInput if the range leaves it.
void require_in_source(const ByteSource& source, std::uint64_t offset, std::uint64_t length);

class DescriptorPool;

/// Opens a regular file read-only (close-on-exec, never blocking on a FIFO or a device). Where the
/// process may not have as many files open, a file is closed between reads and opened again; then
/// it must still be the same, or the read fails with kChanged.
/// @throws Error kMissing if there is no such file, kBadInput if it is no regular file, kIo.
ByteSourcePtr open_local_file(const std::filesystem::path& path);
/// @param pool what keeps the descriptors; must outlive the source.
ByteSourcePtr open_local_file(const std::filesystem::path& path, DescriptorPool& pool);

/// Opens a file by its path or URL, with the backend that it belongs to; see backend.h.
/// @throws Error as open_local_file(), and of other kinds as the backend fails.
ByteSourcePtr open_file(const std::filesystem::path& path);

}  // namespace reshardfs
