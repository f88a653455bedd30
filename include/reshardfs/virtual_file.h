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

/// What it takes to answer for a file.
enum class Effort : std::uint8_t {
  kNone,      ///< nothing: the answer is in memory
  kComputes,  ///< a computation that may take more than a millisecond
  kReads,     ///< reads of source files, which may take as long as storage likes
};

/// A read-only file whose bytes are computed when they are read. Immutable, but for those with a
/// snapshot(); every member function may be called from any number of threads at once.
class RESHARDFS_EXPORT VirtualFile {
 public:
  VirtualFile() = default;
  VirtualFile(const VirtualFile&) = delete;
  VirtualFile& operator=(const VirtualFile&) = delete;
  virtual ~VirtualFile() = default;

  /// Bytes. Known without reading any tensor data.
  virtual std::uint64_t size() const = 0;

  /// Fills all of `out` with the bytes from `offset` on. Blocks on source I/O; allocates nothing
  /// in proportion to the file.
  /// @throws Error kBadInput if the range leaves the file; kIo or kChanged if a source fails. Then
  ///         the contents of `out` are unspecified: never use a part of them.
  virtual void read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;

  /// What its functions take, but for size(), attribute_names(), effort() and the attributes that
  /// attribute_names() lists.
  virtual Effort effort() const noexcept { return Effort::kReads; }

  /// The sources that read_at() of the range reads, each once; only to be compared. They are found
  /// without being read.
  /// @throws Error as read_at(), but for what a source throws.
  virtual std::vector<const ByteSource*> sources_of(std::uint64_t /*offset*/,
                                                    std::uint64_t /*length*/) const {
    return {};
  }

  /// Facts about the file, shown as extended attributes `user.reshardfs.<name>`: those that are
  /// cheap enough to be listed.
  virtual std::vector<std::string> attribute_names() const { return {}; }

  /// The value of an attribute, or nothing if there is none of that name. May cost a read of the
  /// whole file for names that are not listed ("sha256").
  /// @throws Error as read_at().
  virtual std::optional<std::string> attribute(std::string_view) const { return std::nullopt; }

  /// Of a file whose contents change (status, counters): its present contents, which stay as they
  /// are. The size() of such a file is 0. Of any other file: nullptr.
  virtual std::shared_ptr<const VirtualFile> snapshot() const { return nullptr; }

  /// Bytes, as stat(2) is to tell them: some programs read as much as a file is said to have. Of a
  /// file with snapshots: the size that all of them have, or 0; it may take as long as to make one.
  /// Of any other file: size().
  virtual std::uint64_t stat_size() const { return size(); }

  /// The source file that has exactly the bytes of this one, from the first to the last, or nullptr
  /// if there is none or that is not known. For the mount: ByteSource is no part of this interface.
  /// May read the source's headers.
  /// @throws Error as read_at().
  virtual std::shared_ptr<const ByteSource> equal_source() const { return nullptr; }
};

}  // namespace reshardfs
