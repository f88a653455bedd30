// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/target/shown_elements.h"

namespace reshardfs {

/// A destination file, or a part of one: a list of pieces without gaps, in order. A piece is
/// literal bytes, a range of a tensor view, or a range of a source. It uses memory for the literals
/// and the views' segments. The file that owns it keeps the checkpoint alive that the views point
/// into.
class FileImage {
 public:
  /// Appends bytes. Call this only while the image is built, before any thread reads it.
  void append_literal(const std::string& bytes);
  /// @return the view's number, for append_range().
  std::size_t add_view(ShownElements view);
  void append_range(std::size_t view, std::uint64_t offset, std::uint64_t length);
  /// Appends all of a view.
  void append(ShownElements view);
  /// Appends unchanged bytes of a source.
  /// @param range inside the source. The owner of the image keeps the source alive.
  void append_source(const ByteSource& source, const ByteRange& range);

  std::uint64_t size() const noexcept { return size_; }
  /// Like VirtualFile::read_at(); the caller checks the batch.
  void read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const;
  /// Appends where sources have a range unchanged, as ShownElements::add_unchanged().
  void add_unchanged(const ByteRange& range, std::uint64_t place, std::uint64_t least,
                     std::vector<StoredRange>& out) const;
  /// Lists the sources that read() would read.
  void for_each_use(const ByteRange& range, SourceSink& sink) const;
  /// The source file with exactly these bytes, or nullptr. It reads no tensor data: every view must
  /// be a whole slice of the same file, at the same offset, so that only the literals remain to be
  /// compared. If several ranks hold the slices, only the file that the views read counts: whether
  /// another rank's file has the same bytes is unknown.
  ByteSourcePtr equal_source() const;

 private:
  struct Piece {
    std::uint64_t begin = 0;             ///< in the file
    std::uint64_t from = 0;              ///< offset in literals_, the view or the source
    std::int64_t view = -1;              ///< -1: literal
    const ByteSource* source = nullptr;  ///< nullptr: a view or literals
    bool is_literal() const noexcept { return view < 0 && source == nullptr; }
  };
  std::uint64_t end_of(std::size_t piece) const noexcept {
    return piece + 1 == pieces_.size() ? size_ : pieces_[piece + 1].begin;
  }
  ByteSourcePtr only_source() const;
  bool has_literals(const ByteSource& source) const;
  /// Calls visit(piece, offset in the piece's literals, view or source, length) for the pieces of a
  /// range inside the file.
  template <typename Visit>
  void for_each_piece(const ByteRange& range, Visit&& visit) const;
  void read_piece(const Piece& piece, std::uint64_t from, std::span<std::byte> out,
                  ReadBatch& batch) const;

  std::string literals_;
  std::vector<ShownElements> views_;
  std::vector<Piece> pieces_;
  std::uint64_t size_ = 0;
};

/// In order; adjacent ones that are adjacent in their source are one. Those of fewer bytes than
/// `least` are left out then.
std::vector<StoredRange> joined(std::vector<StoredRange> ranges, std::uint64_t least);

}  // namespace reshardfs
