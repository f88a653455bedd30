// SPDX-License-Identifier: Apache-2.0
/// Reading the elements of one parameter of one source file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "reshardfs/error.h"

#include "checkpoint/checkpoint_set.h"
#include "checkpoint/holders.h"
#include "format/file_index.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// The sources that one read has used. They are checked once, after their bytes were read and
/// before those are given out, so that bytes of two versions of a file are never mixed. If one
/// fails, the read can be tried again from other ranks' files that hold the same slices.
class ReadBatch {
 public:
  /// To be called before a source is read.
  void use(const ByteSource& source);
  /// @throws Error kChanged.
  void check();

  /// Takes note, in a handler, that the source which was used last has failed, and forgets all that
  /// was used.
  /// @return whether it is worth trying again: not if the read has met it before.
  bool avoid_failed();
  bool avoids(const ByteSource& source) const noexcept {
    return !avoided_.empty() &&
           std::find(avoided_.begin(), avoided_.end(), &source) != avoided_.end();
  }
  /// For a slice that is nowhere else: throws what the first source that failed has thrown.
  [[noreturn]] void rethrow_first();
  /// To be called when the read has succeeded: counts and reports that it has done without sources.
  void tell() const noexcept;

 private:
  std::vector<const ByteSource*> used_;
  const ByteSource* last_ = nullptr;
  std::vector<const ByteSource*> avoided_;
  std::exception_ptr first_failure_;
  bool hopeless_ = false;
};

/// Calls read(batch) and checks the batch, again without a source that has failed as long as other
/// ranks' files have the same slices.
/// @throws what the first source that failed has thrown.
template <typename Read>
void read_checked(Read&& read) {
  ReadBatch batch;
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

/// As read_content() for ranges of the content (their offset counts in it), where the source can
/// gather them.
/// @return false if that is not possible; `out` is then undefined.
bool gather_content(const Holding& holding, const StridedRanges& ranges, std::byte* out,
                    ReadBatch& batch);

/// Whether a range of the content stands, as it is, at byte `place` of the file and behind it.
bool is_stored_at(const TensorEntry& entry, const ByteRange& content, std::uint64_t place) noexcept;

/// Appends where a range of the content is stored.
void add_stored_ranges(const TensorEntry& entry, const ByteRange& content,
                       std::vector<ByteRange>& out);

/// Reads `out.size()` bytes of a parameter's elements from byte `offset` of its content on:
/// stored extents are joined, old 4-byte BFloat16 is cut to its upper halves.
/// @throws what the source throws.
void read_content(const Holding& holding, std::uint64_t offset, std::span<std::byte> out,
                  ReadBatch& batch);

}  // namespace reshardfs
