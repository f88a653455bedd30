// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/strided_read.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "layout/nest.h"
#include "layout/regions.h"
#include "storage/strided_ranges.h"

namespace reshardfs {
namespace {

/// Bytes that are put in C order at once.
constexpr std::int64_t kBlockBytes = 2 << 20;
/// Gaps that are read rather than skipped.
constexpr std::int64_t kSmallGap = 512;
/// Bytes of storage in memory.
constexpr std::int64_t kBufferBytes = 2 << 20;
/// Ranges that are asked for at once.
constexpr std::int64_t kMostRanges = 1 << 16;
/// Ranges that are further apart are on pages of their own, and cost as much one by one.
constexpr std::uint64_t kGatherStride = 32 << 10;
/// With at least this many rows, reading two more costs little.
constexpr std::int64_t kFewRows = 8;

/// Grows to the largest block that its thread has needed: some 2 MiB at most, as the next one.
std::span<std::byte> scratch_for_ranges(std::size_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return std::span(buffer).first(bytes);
}

std::span<std::byte> scratch_for_rows(std::size_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return std::span(buffer).first(bytes);
}

/// Elements that follow each other in C order.
struct Stretch {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Extends it to whole rows of one dimension, if little is missing: a part of a row may be in as
/// many places of the storage as several rows are.
Stretch in_rows(const Shape& shape, const Stretch& stretch) {
  std::int64_t row = element_count(shape);
  for (const std::int64_t length : shape) {
    row /= length;
    if (row <= stretch.count / kFewRows) break;
  }
  const std::int64_t first = stretch.first / row * row;
  const std::int64_t end = (stretch.first + stretch.count + row - 1) / row * row;
  return {first, end - first};
}

/// The number of the loop with the shortest steps in the source. @pre there is one
std::size_t nearest(const Nest& nest) noexcept {
  const auto loops = nest.loops();
  const auto least = std::min_element(loops.begin(), loops.end(),
                                      [](const auto& x, const auto& y) { return x.from < y.from; });
  return static_cast<std::size_t>(least - loops.begin());
}

/// Reads nests of a tensor's elements, by ranges of its storage.
class NestReader {
 public:
  NestReader(const ByteSource& source, const TorchTensor& tensor, bool foreseen)
      : source_(source), tensor_(tensor), foreseen_(foreseen), width_(element_size(tensor.dtype)) {}

  void read(const Nest& nest, std::byte* out) {
    take(nest);
    // Ranges may share elements, and are then read one by one.
    const std::int64_t most = ranges_.from < span_ ? 1 : kMostRanges;
    const std::int64_t at_once =
        std::clamp<std::int64_t>(std::min(kBufferBytes / (span_ * width_), most), 1, ranges_.count);
    for_each_index(outer_, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t first = 0; first < ranges_.count; first += at_once) {
        const std::int64_t count = std::min(at_once, ranges_.count - first);
        const auto ranges = fetch(from + first * ranges_.from, count);
        Nest within = inner_;
        within.add({count, span_, ranges_.to});
        copy_elements(ranges.data(), out + (to + first * ranges_.to) * width_, within,
                      static_cast<std::size_t>(width_));
      }
    });
  }

 private:
  /// Divides the loops: those of a range, which is read with the gaps in it, the one along which
  /// ranges follow each other, and those around it.
  void take(const Nest& nest) {
    outer_ = nest;
    inner_ = {};
    span_ = 1;
    ranges_ = {};
    while (!outer_.loops().empty()) {
      const std::size_t next = nearest(outer_);
      const Nest::Loop loop = outer_.loops()[next];
      const std::int64_t span = (loop.count - 1) * loop.from + span_;
      const bool is_near = (loop.from - span_) * width_ <= kSmallGap || loop.from <= 2 * span_;
      if (!is_near || span > kBufferBytes / width_) {
        ranges_ = outer_.take(next);
        return;
      }
      inner_.add(outer_.take(next));
      span_ = span;
    }
  }

  /// @return ranges, one behind the other.
  /// @param from the first element of the first one.
  std::span<const std::byte> fetch(std::int64_t from, std::int64_t count) {
    const auto bytes = static_cast<std::uint64_t>(span_ * width_);
    const std::span<std::byte> buffer =
        scratch_for_ranges(static_cast<std::size_t>(bytes) * static_cast<std::size_t>(count));
    const std::uint64_t begin =
        tensor_.storage.offset() + static_cast<std::uint64_t>(from * width_);
    if (count == 1) {
      read_part(source_, {begin, buffer, foreseen_});
      return buffer;
    }
    const auto stride = static_cast<std::uint64_t>(ranges_.from * width_);
    const StridedRanges ranges(ByteRange(begin, bytes), static_cast<std::uint64_t>(count),
                               {.source = stride, .memory = bytes});
    if (stride <= kGatherStride && source_.gather(ranges, buffer.data())) return buffer;
    std::vector<ReadRequest> parts;
    parts.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < ranges.count(); ++i) {
      parts.push_back(
          {ranges.offset_of(i),
           buffer.subspan(static_cast<std::size_t>(i * bytes), static_cast<std::size_t>(bytes)),
           foreseen_});
    }
    source_.read_many(parts);
    return buffer;
  }

  const ByteSource& source_;
  const TorchTensor& tensor_;
  bool foreseen_;
  std::int64_t width_;
  Nest inner_;
  std::int64_t span_ = 1;  ///< of a range, in elements
  Nest::Loop ranges_;
  Nest outer_;
};

class InOrder final : public ComputedContent {
 public:
  InOrder(ByteSourcePtr file, TorchTensor tensor)
      : file_(std::move(file)),
        tensor_(std::move(tensor)),
        size_(content_bytes(tensor_.shape, tensor_.dtype)) {}

  std::uint64_t size() const override { return size_; }
  void read(const ReadRequest& part) const override { read_strided(*file_, tensor_, part); }

 private:
  ByteSourcePtr file_;
  TorchTensor tensor_;
  std::uint64_t size_;
};

}  // namespace

void read_strided(const ByteSource& source, const TorchTensor& tensor, const ReadRequest& part) {
  auto [offset, out, foreseen] = part;
  const std::int64_t width = element_size(tensor.dtype);
  NestReader reader(source, tensor, foreseen);
  const auto read = [&](const Stretch& stretch, std::byte* to) {
    for_each_region(stretch.first, stretch.count, 0, tensor.shape, [&](const Region& region) {
      Nest nest = nest_of(region, tensor.strides);
      nest.from += tensor.first;
      reader.read(nest, to);
    });
  };
  while (!out.empty()) {
    // Rounded out to whole elements; the caller may want a part of the first and the last.
    const auto first = static_cast<std::int64_t>(offset) / width;
    const auto skipped = static_cast<std::size_t>(static_cast<std::int64_t>(offset) % width);
    const auto wanted = (static_cast<std::int64_t>(skipped + out.size()) + width - 1) / width;
    const std::int64_t count = std::min(wanted, kBlockBytes / width);
    const std::size_t bytes =
        std::min(static_cast<std::size_t>(count * width) - skipped, out.size());
    const Stretch whole = in_rows(tensor.shape, {first, count});
    if (whole.count * width == static_cast<std::int64_t>(bytes)) {
      read(whole, out.data());
    } else {
      const auto rows = scratch_for_rows(static_cast<std::size_t>(whole.count * width));
      read(whole, rows.data());
      const auto begin = static_cast<std::size_t>((first - whole.first) * width) + skipped;
      std::memcpy(out.data(), rows.data() + begin, bytes);
    }
    offset += bytes;
    out = out.subspan(bytes);
  }
}

ByteRange InOrderSource::add(TorchTensor tensor) {
  return append(std::make_unique<const InOrder>(stored(), std::move(tensor)));
}

}  // namespace reshardfs
