// SPDX-License-Identifier: Apache-2.0
#include "plan/target/file_image.h"

#include <algorithm>
#include <cstring>

#include "reshardfs/error.h"

namespace reshardfs {

void FileImage::append_literal(const std::string& bytes) {
  if (bytes.empty()) return;
  pieces_.push_back({.begin = size_, .from = literals_.size()});
  literals_ += bytes;
  size_ += bytes.size();
}

std::size_t FileImage::add_view(ShownElements view) {
  views_.push_back(std::move(view));
  return views_.size() - 1;
}

void FileImage::append_range(std::size_t view, std::uint64_t offset, std::uint64_t length) {
  if (length == 0) return;
  pieces_.push_back({.begin = size_, .from = offset, .view = static_cast<std::int64_t>(view)});
  size_ += length;
}

void FileImage::append(ShownElements view) {
  const std::uint64_t bytes = view.size();
  append_range(add_view(std::move(view)), 0, bytes);
}

void FileImage::append_source(const ByteSource& source, const ByteRange& range) {
  if (range.empty()) return;
  pieces_.push_back({.begin = size_, .from = range.offset(), .source = &source});
  size_ += range.length();
}

template <typename Visit>
void FileImage::for_each_piece(const ByteRange& range, Visit&& visit) const {
  if (range.empty()) return;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), range.offset(),
                                [](std::uint64_t o, const Piece& p) { return o < p.begin; }) -
               1;
  for (std::uint64_t at = range.offset(); at < range.end(); ++piece) {
    const std::uint64_t end = piece + 1 == pieces_.end() ? size_ : (piece + 1)->begin;
    const std::uint64_t length = std::min(range.end(), end) - at;
    visit(*piece, piece->from + (at - piece->begin), length);
    at += length;
  }
}

void FileImage::read_piece(const Piece& piece, std::uint64_t from, std::span<std::byte> out,
                           ReadBatch& batch) const {
  if (piece.is_literal()) {
    std::memcpy(out.data(), literals_.data() + from, out.size());
  } else if (piece.source != nullptr) {
    batch.use(*piece.source);
    piece.source->read_at(from, out);
  } else {
    views_[static_cast<std::size_t>(piece.view)].read(from, out, batch);
  }
}

void FileImage::read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const {
  if (offset > size_ || out.size() > size_ - offset) {
    throw Error(ErrorKind::kBadInput, "a read beyond the end of the file").at_offset(offset);
  }
  for_each_piece({offset, out.size()},
                 [&](const Piece& piece, std::uint64_t from, std::uint64_t length) {
                   const auto bytes = static_cast<std::size_t>(length);
                   read_piece(piece, from, out.first(bytes), batch);
                   out = out.subspan(bytes);
                 });
}

void FileImage::add_unchanged(const ByteRange& range, std::uint64_t place, std::uint64_t least,
                              std::vector<StoredRange>& out) const {
  for_each_piece(range, [&](const Piece& piece, std::uint64_t from, std::uint64_t length) {
    if (piece.view >= 0) {
      views_[static_cast<std::size_t>(piece.view)].add_unchanged({from, length}, place, least, out);
    }
    place += length;
  });
}

std::vector<StoredRange> joined(std::vector<StoredRange> ranges, std::uint64_t least) {
  std::sort(ranges.begin(), ranges.end(),
            [](const StoredRange& a, const StoredRange& b) { return a.offset < b.offset; });
  std::vector<StoredRange> out;
  for (StoredRange& range : ranges) {
    const bool goes_on = !out.empty() && out.back().source == range.source &&
                         out.back().offset + out.back().length == range.offset &&
                         out.back().source_offset + out.back().length == range.source_offset;
    if (goes_on) {
      out.back().length += range.length;
    } else {
      out.push_back(std::move(range));
    }
  }
  std::erase_if(out, [least](const StoredRange& range) { return range.length < least; });
  return out;
}

void FileImage::for_each_use(const ByteRange& range, SourceSink& sink) const {
  for_each_piece(range, [&](const Piece& piece, std::uint64_t from, std::uint64_t length) {
    if (piece.is_literal()) return;
    if (piece.source != nullptr) return sink.take(*piece.source, ByteRange(from, length));
    views_[static_cast<std::size_t>(piece.view)].for_each_use(ByteRange(from, length), sink);
  });
}

/// The file in which all views stand at the same place as here, if there is one.
ByteSourcePtr FileImage::only_source() const {
  const RankFile* file = nullptr;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (piece.source != nullptr) return nullptr;
    if (piece.is_literal()) continue;
    const Holding holding = views_[static_cast<std::size_t>(piece.view)].whole_cell();
    if (!holding || (file != nullptr && file != holding.file)) return nullptr;
    file = holding.file;
    const ByteRange content(piece.from, end_of(i) - piece.begin);
    if (!is_stored_at(*holding.entry, content, piece.begin)) return nullptr;
  }
  return file == nullptr || file->source->size() != size_ ? nullptr : file->source;
}

bool FileImage::has_literals(const ByteSource& source) const {
  constexpr std::uint64_t kBlock = 65536;
  std::vector<std::byte> block;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (!piece.is_literal()) continue;
    const std::uint64_t length = end_of(i) - piece.begin;
    for (std::uint64_t done = 0; done < length; done += block.size()) {
      block.resize(static_cast<std::size_t>(std::min(length - done, kBlock)));
      source.read_at(piece.begin + done, block);
      if (std::memcmp(block.data(), literals_.data() + piece.from + done, block.size()) != 0) {
        return false;
      }
    }
  }
  return true;
}

ByteSourcePtr FileImage::equal_source() const {
  ByteSourcePtr source = only_source();
  if (source == nullptr || !has_literals(*source)) return nullptr;
  source->check_unchanged();
  return source;
}

}  // namespace reshardfs
