// SPDX-License-Identifier: Apache-2.0
/// Reads the elements of one parameter of one source file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "reshardfs/error.h"
#include "reshardfs/virtual_file.h"

#include "base/engine.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/holders.h"
#include "format/file_index.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// The sources that one read has used. They are checked once, after the bytes were read and before
/// the caller gets them, so that bytes of two versions of a file are never mixed. If a source
/// fails, the read can be retried with other ranks' files that hold the same slices.
class ReadBatch {
 public:
  /// @param foreseen see ReadRequest::foreseen.
  explicit ReadBatch(bool foreseen = false) : foreseen_(foreseen) {}

  bool foreseen() const noexcept { return foreseen_; }
  /// Call this before reading a source.
  void use(const ByteSource& source);
  /// @throws Error kChanged.
  void check();

  /// Call this in a catch block: records that the source used last has failed, and forgets the
  /// sources used so far.
  /// @return whether to retry; false if this source has failed before in the same read.
  bool avoid_failed();
  bool avoids(const ByteSource& source) const noexcept {
    return !avoided_.empty() &&
           std::find(avoided_.begin(), avoided_.end(), &source) != avoided_.end();
  }
  /// Throws the error of the first source that failed, for a slice that no other file has.
  [[noreturn]] void rethrow_first();
  /// Call this when the read has succeeded: counts and reports the sources that it avoided.
  void tell() const noexcept;

 private:
  bool foreseen_;
  std::vector<const ByteSource*> used_;
  const ByteSource* last_ = nullptr;
  std::vector<const ByteSource*> avoided_;
  std::exception_ptr first_failure_;
  bool hopeless_ = false;
};

/// Calls read(batch) and checks the batch. If a source fails, it retries without this source as
/// long as other ranks' files have the same slices.
/// @param foreseen whether the sources know what is read: see ReadRequest::foreseen.
/// @throws the error of the first source that failed.
template <typename Read>
void read_checked(Read&& read, bool foreseen = false) {
  ReadBatch batch(foreseen);
  while (true) {
    try {
      read(batch);
      batch.check();
      return batch.tell();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal || !batch.avoid_failed()) throw;
    }
  }
}

/// Like read_content() for several ranges of the content (with offsets relative to it), if the
/// source can gather them.
/// @return false if the source cannot; `out` is then undefined.
bool gather_content(const Holding& holding, const StridedRanges& ranges, std::byte* out,
                    ReadBatch& batch);

/// Whether a range of the content is stored unchanged in the file, from byte `place` on.
bool is_stored_at(const TensorEntry& entry, const ByteRange& content, std::uint64_t place) noexcept;

/// Appends where the file has a range of the content unchanged.
/// @param offset of the range in a destination file, for the result.
void add_unchanged(const Holding& holding, const ByteRange& content, std::uint64_t offset,
                   std::vector<StoredRange>& out);

/// Appends the file ranges in which a range of the content is stored.
RESHARDFS_ENGINE void add_stored_ranges(const TensorEntry& entry, const ByteRange& content,
                                        std::vector<ByteRange>& out);

/// Reads `out.size()` bytes of a parameter's elements from byte `offset` of its content on. It
/// joins stored extents, and keeps only the upper halves of old 4-byte BFloat16.
/// @throws errors of the source.
void read_content(const Holding& holding, std::uint64_t offset, std::span<std::byte> out,
                  ReadBatch& batch);

}  // namespace reshardfs
