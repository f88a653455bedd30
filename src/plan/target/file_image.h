// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/target/shown_elements.h"

namespace reshardfs {

/// A destination file, or a part of one: an ordered, gap-free list of pieces, each either literal
/// bytes, a range of a tensor view, or a range of a source. Its memory is the literals and the
/// views' segments. It belongs to a file, which keeps the checkpoint that the views point into.
class FileImage {
 public:
  /// Appends bytes; only while it is built, before any reader sees it.
  void append_literal(const std::string& bytes);
  /// @return the view's number, for append_range().
  std::size_t add_view(ShownElements view);
  void append_range(std::size_t view, std::uint64_t offset, std::uint64_t length);
  /// All of a view.
  void append(ShownElements view);
  /// Bytes of a source as they are.
  /// @param range inside of the source, which whoever has the image keeps.
  void append_source(const ByteSource& source, const ByteRange& range);

  std::uint64_t size() const noexcept { return size_; }
  /// As VirtualFile::read_at(), with a batch that the caller checks.
  void read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;
  /// Tells what read() would read of sources.
  void for_each_use(const ByteRange& range, SourceSink& sink) const;
  /// The source file that has exactly these bytes, or nullptr. Found without reading tensor data:
  /// every view is a whole slice of the same file and stands there at the same place, so that only
  /// the literals are left to be compared. Of slices that several ranks hold, the file that the
  /// views read counts: that another rank's file holds the same bytes is not known.
  ByteSourcePtr equal_source() const;

 private:
  struct Piece {
    std::uint64_t begin = 0;             ///< in the file
    std::uint64_t from = 0;              ///< in literals_, in the view or in the source
    std::int64_t view = -1;              ///< -1: literal
    const ByteSource* source = nullptr;  ///< of what is no view's
    bool is_literal() const noexcept { return view < 0 && source == nullptr; }
  };
  std::uint64_t end_of(std::size_t piece) const noexcept {
    return piece + 1 == pieces_.size() ? size_ : pieces_[piece + 1].begin;
  }
  ByteSourcePtr only_source() const;
  bool has_literals(const ByteSource& source) const;
  /// Calls visit(piece, offset in what it is of, length) for the pieces of a range inside the file.
  template <typename Visit>
  void for_each_piece(const ByteRange& range, Visit&& visit) const;
  void read_piece(const Piece& piece, std::uint64_t from, std::span<std::byte> out,
                  ReadBatch& batch) const;

  std::string literals_;
  std::vector<ShownElements> views_;
  std::vector<Piece> pieces_;
  std::uint64_t size_ = 0;
};

}  // namespace reshardfs
