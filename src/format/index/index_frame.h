// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/file_index.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// The bytes of a file outside tensor contents, from which its index was made. Another file of the
/// same format and size with the same bytes in the same places has the same index, and comparing
/// them is much cheaper than reading the index. The ranks of a pipeline stage are such files.
class IndexFrame {
 public:
  /// @return nothing if that does not hold for the file, or there are more bytes than names and
  ///         shapes take.
  /// @throws what the source throws.
  static std::shared_ptr<const IndexFrame> of(const ByteSource& source,
                                              std::shared_ptr<const FileIndex> index);

  const std::shared_ptr<const FileIndex>& index() const noexcept { return index_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  /// The stretches between contents.
  std::size_t stretches() const noexcept { return stretches_.size(); }

  struct Comparison {
    std::size_t equal = 0;  ///< stretches
    std::size_t different = 0;
  };
  /// Compares the stretches first, first + step, ..., and the last one.
  /// @param stop_early at the first difference.
  /// @throws what the source throws.
  Comparison compare(const ByteSource& source, std::size_t first, std::size_t step,
                     bool stop_early) const;

  /// Whether the whole frame is that of `source`.
  bool fits(const ByteSource& source) const;

 private:
  struct Stretch {
    ByteRange bytes;     ///< in the file
    std::size_t at = 0;  ///< in bytes_
  };

  IndexFrame() = default;

  /// Of a source far away: asks for the next stretches together.
  /// @param turn how many were read before
  void foresee(const ByteSource& source, std::size_t turn, std::size_t next,
               std::size_t step) const;

  std::shared_ptr<const FileIndex> index_;
  std::uint64_t file_bytes_ = 0;
  std::vector<Stretch> stretches_;
  std::string bytes_;
};

}  // namespace reshardfs
