// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/export.h"

namespace reshardfs {

class ByteSource;

/// Bytes of a file that a source has unchanged and in one piece. For exports only, as ByteSource is
/// not part of the public interface.
struct StoredRange {
  std::uint64_t offset = 0;         ///< in the file
  std::uint64_t length = 0;         ///< bytes
  std::uint64_t source_offset = 0;  ///< in the source
  std::shared_ptr<const ByteSource> source{};
};

/// What a member function of a file may have to do.
enum class Effort : std::uint8_t {
  kNone,      ///< nothing: the answer is in memory
  kComputes,  ///< a computation that may take more than a millisecond
  kReads,     ///< reads of source files, which may take any time
};

/// A read-only file whose bytes are computed when they are read. Immutable, except for files with a
/// snapshot(). Every member function may be called from any number of threads at once.
class RESHARDFS_EXPORT VirtualFile {
 public:
  VirtualFile() = default;
  VirtualFile(const VirtualFile&) = delete;
  VirtualFile& operator=(const VirtualFile&) = delete;
  virtual ~VirtualFile() = default;

  /// The file's size in bytes, which is known without reading tensor data.
  virtual std::uint64_t size() const = 0;

  /// Fills all of `out` with the bytes from `offset` on. Blocks on source I/O; allocates nothing
  /// in proportion to the file.
  /// @throws Error kBadInput if the range leaves the file; kIo or kChanged if a source fails. Then
  ///         the contents of `out` are unspecified: never use a part of them.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;

  /// What the member functions may have to do, except for size(), attribute_names(), effort() and
  /// the attributes that attribute_names() lists.
  virtual Effort effort() const noexcept { return Effort::kReads; }

  /// The names of facts about the file, shown as extended attributes `user.reshardfs.<name>`. Lists
  /// only those that are cheap to compute.
  virtual std::vector<std::string> attribute_names() const { return {}; }

  /// The value of an attribute, or nullopt if there is none of this name. Attributes that are not
  /// listed ("sha256") may require reading the whole file.
  /// @throws Error as read_at().
  virtual std::optional<std::string> attribute(std::string_view) const { return std::nullopt; }

  /// For a file whose contents change (status, counters), an unchanging copy of its present
  /// contents. The size() of such a file is 0. nullptr for any other file.
  virtual std::shared_ptr<const VirtualFile> snapshot() const { return nullptr; }

  /// The size that stat(2) reports, on which some programs rely. For a file with snapshots, the
  /// size that all of them have, or 0 if they differ; this may take as long as making one. size()
  /// for any other file.
  virtual std::uint64_t stat_size() const { return size(); }

  /// That of the kernel's requests.
  static constexpr std::uint32_t kUsualRead = std::uint32_t{1} << 20U;
  /// The size in bytes of the reads that stat(2) advises programs to make (st_blksize): a power of
  /// two, at least 4096. Python's open() reads as much again wherever a program jumps to.
  virtual std::uint32_t advised_read() const noexcept { return kUsualRead; }

  /// The source file with exactly the same bytes, or nullptr if there is none or it is unknown. For
  /// the mount only: ByteSource is not part of the public interface. May read the source's headers.
  /// @throws Error as read_at().
  virtual std::shared_ptr<const ByteSource> equal_source() const { return nullptr; }

  /// Ranges of the file that sources have unchanged, each of at least `least` bytes; ascending, and
  /// apart from each other. Reads no tensor data. There may be more than it finds.
  /// @throws Error as read_at(), except for errors of sources.
  virtual std::vector<StoredRange> stored_ranges(std::uint64_t /*offset*/, std::uint64_t /*length*/,
                                                 std::uint64_t /*least*/) const {
    return {};
  }
};

}  // namespace reshardfs
