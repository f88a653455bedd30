// SPDX-License-Identifier: Apache-2.0
#include "format/index/index_frame.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

namespace reshardfs {
namespace {

/// Reads stretches in ascending order. Those that are close together are read at once.
class StretchReader {
 public:
  explicit StretchReader(const ByteSource& source) : source_(source) {}

  /// @param next where the stretch after it begins; more is read if that is near.
  std::string_view read(const ByteRange& stretch, std::uint64_t next) {
    const std::uint64_t offset = stretch.offset();
    if (!ByteRange(begin_, window_.size()).contains(stretch)) {
      const bool near = next - offset < kNearBytes;
      const std::uint64_t bytes =
          near ? std::max(stretch.length(), kWindowBytes) : stretch.length();
      window_.resize(std::min(bytes, source_.size() - offset));
      begin_ = offset;
      source_.read_at(begin_, std::as_writable_bytes(std::span(window_)));
    }
    return std::string_view(window_).substr(offset - begin_, stretch.length());
  }

 private:
  static constexpr std::uint64_t kNearBytes = 1024;
  static constexpr std::uint64_t kWindowBytes = 16 << 10;

  const ByteSource& source_;
  std::uint64_t begin_ = 0;
  std::string window_;
};

std::vector<ByteRange> contents_of(const FileIndex& index) {
  std::vector<ByteRange> contents;
  contents.reserve(index.entries().size());
  for (const TensorEntry& entry : index.entries()) {
    contents.insert(contents.end(), entry.extents.begin(), entry.extents.end());
  }
  std::sort(contents.begin(), contents.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.offset() < b.offset(); });
  return contents;
}

// Hostile files may have any number of bytes that belong to nothing.
constexpr std::uint64_t kMostOtherBytes = 16 << 20;

/// What records may take for their names, and for the shape and the type beside each.
std::uint64_t bytes_of_names(const FileIndex& index) {
  constexpr std::uint64_t kBesideName = 64;
  std::uint64_t bytes = 0;
  for (const TensorEntry& entry : index.entries()) bytes += entry.name.size() + kBesideName;
  return bytes;
}

}  // namespace

void IndexFrame::foresee(const ByteSource& source, std::size_t turn, std::size_t next,
                         std::size_t step) const {
  constexpr std::size_t kTogether = 64;
  if (!source.is_far() || turn % kTogether != 0) return;
  std::vector<ByteRange> ranges;
  for (; ranges.size() < kTogether && next < stretches_.size(); next += step) {
    ranges.push_back(stretches_[next].bytes);
  }
  source.foresee(ranges, Foresight::kApart);
}

std::shared_ptr<const IndexFrame> IndexFrame::of(const ByteSource& source,
                                                 std::shared_ptr<const FileIndex> index) {
  const std::uint64_t most_bytes = bytes_of_names(*index) + kMostOtherBytes;
  // A map is looked into.
  const bool any_map = std::any_of(index->entries().begin(), index->entries().end(),
                                   [](const TensorEntry& e) { return e.dtype == DType::kMap; });
  // Each file has its own boxes, and what is refused has its own bytes.
  const bool own = index->has_boxes() || !index->refused().empty();
  if (any_map || own || index->checksum_bytes() > source.size()) return nullptr;

  std::shared_ptr<IndexFrame> frame(new IndexFrame);
  std::uint64_t total = 0;
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return;
    frame->stretches_.push_back({ByteRange::between(begin, end), static_cast<std::size_t>(total)});
    total += end - begin;
  };
  std::uint64_t behind = 0;
  for (const ByteRange& content : contents_of(*index)) {
    add(behind, content.offset());
    behind = std::max(behind, content.end());
    if (total > most_bytes) return nullptr;
  }
  add(behind, source.size() - index->checksum_bytes());
  if (total > most_bytes || frame->stretches_.empty()) return nullptr;

  frame->index_ = std::move(index);
  frame->file_bytes_ = source.size();
  frame->bytes_.reserve(total);
  StretchReader reader(source);
  for (std::size_t i = 0; i < frame->stretches_.size(); ++i) {
    const Stretch& stretch = frame->stretches_[i];
    frame->foresee(source, i, i, 1);
    const bool last = i + 1 == frame->stretches_.size();
    frame->bytes_ +=
        reader.read(stretch.bytes, last ? source.size() : frame->stretches_[i + 1].bytes.offset());
  }
  source.check_unchanged();
  return frame;
}

IndexFrame::Comparison IndexFrame::compare(const ByteSource& source, std::size_t first,
                                           std::size_t step, bool stop_early) const {
  Comparison result;
  if (source.size() != file_bytes_) return {0, stretches_.size()};
  StretchReader reader(source);
  const std::size_t last = stretches_.size() - 1;
  std::size_t turn = 0;
  for (std::size_t i = std::min(first, last);;) {
    foresee(source, turn++, i, step);
    const std::size_t next = i == last ? last : std::min(i + step, last);
    const Stretch& stretch = stretches_[i];
    const std::string_view found =
        reader.read(stretch.bytes, i == last ? source.size() : stretches_[next].bytes.offset());
    const bool same = std::memcmp(found.data(), bytes_.data() + stretch.at, found.size()) == 0;
    ++(same ? result.equal : result.different);
    if (i == last || (stop_early && !same)) break;
    i = next;
  }
  source.check_unchanged();
  return result;
}

bool IndexFrame::fits(const ByteSource& source) const {
  return compare(source, 0, 1, /*stop_early=*/true).different == 0;
}

}  // namespace reshardfs
