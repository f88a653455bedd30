// SPDX-License-Identifier: Apache-2.0
/// Reading the elements of one parameter of one source file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/checkpoint_set.h"
#include "format/file_index.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// A parameter as one rank's file holds it. The pointers belong to a CheckpointSet.
struct Holding {
  const RankFile* file = nullptr;
  const TensorEntry* entry = nullptr;

  explicit operator bool() const noexcept { return entry != nullptr; }
};

/// The sources that one read has used. They are checked once, after their bytes were read and
/// before those are given out, so that bytes of two versions of a file are never mixed.
class ReadBatch {
 public:
  void use(const ByteSource& source);
  /// @throws Error kChanged.
  void check() const;

 private:
  std::vector<const ByteSource*> used_;
};

/// As read_content() for pieces of the content (Pieces::offset counts in it), where the source can
/// gather them.
/// @return false if that is not possible; `out` is then undefined.
bool gather_content(const Holding& holding, Pieces pieces, std::byte* out, ReadBatch& batch);

/// Whether `length` bytes of the content from `offset` on stand, as they are, at byte `place` of
/// the file and behind it.
bool is_stored_at(const TensorEntry& entry, std::uint64_t offset, std::uint64_t length,
                  std::uint64_t place) noexcept;

/// Reads `out.size()` bytes of a parameter's elements from byte `offset` of its content on:
/// stored extents are joined, old 4-byte BFloat16 is cut to its upper halves.
/// @throws what the source throws.
void read_content(const Holding& holding, std::uint64_t offset, std::span<std::byte> out,
                  ReadBatch& batch);

}  // namespace reshardfs
