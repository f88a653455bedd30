// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/strided_read.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "storage/pieces.h"

namespace reshardfs {
namespace {

/// Bytes that are put in C order at once.
constexpr std::int64_t kBlockBytes = 2 << 20;
/// Gaps that are read rather than skipped.
constexpr std::int64_t kSmallGap = 512;
/// Bytes of storage in memory.
constexpr std::int64_t kBufferBytes = 2 << 20;
/// Pieces that are asked for at once.
constexpr std::int64_t kMostPieces = 1 << 16;
/// Pieces that are further apart are on pages of their own, and cost as much one by one.
constexpr std::uint64_t kGatherStride = 32 << 10;
/// Elements in a row and in a column that are copied at once: their cache lines stay near.
constexpr std::int64_t kTile = 16;
constexpr std::int64_t kWidest = 8;
/// Of so many rows, two more are little.
constexpr std::int64_t kFewRows = 8;

/// Grows to the largest block that its thread has needed: some 2 MiB at most, as the next one.
std::span<std::byte> scratch_for_pieces(std::size_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return std::span(buffer).first(bytes);
}

std::span<std::byte> scratch_for_rows(std::size_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return std::span(buffer).first(bytes);
}

/// A dimension: how many elements, and how far apart they are, in elements.
struct Axis {
  std::int64_t length = 1;
  std::int64_t from = 0;  ///< in the storage, or what of it is in memory
  std::int64_t to = 0;    ///< in C order
};

using Axes = std::vector<Axis>;

/// Elements of a tensor that are a product of ranges.
struct Box {
  std::int64_t from = 0;  ///< the first one in the storage
  std::int64_t to = 0;    ///< the first one in C order, from the first one that is wanted
  Axes axes;
};

/// Adds an inner dimension. One that goes on where the one before it ends is a part of that.
void add_axis(Axes& axes, const Axis& axis) {
  if (axis.length == 1) return;
  const bool goes_on = !axes.empty() && axes.back().from == axis.from * axis.length &&
                       axes.back().to == axis.to * axis.length;
  if (goes_on) {
    axes.back() = {axes.back().length * axis.length, axis.from, axis.to};
  } else {
    axes.push_back(axis);
  }
}

/// Elements that follow each other in C order.
struct Stretch {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// With what is missing to whole rows of one dimension, if that is little: a part of a row may be
/// in as many places of the storage as many rows are.
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

/// Divides elements that follow each other in C order into boxes: two for each dimension at most.
class Division {
 public:
  Division(const TorchTensor& tensor, std::vector<Box>& boxes) : tensor_(tensor), boxes_(boxes) {}

  /// @param dimension those before it have one index, whose elements are at `from` and behind.
  /// @param first of the elements, of those at that index.
  void add(std::size_t dimension, std::int64_t from, std::int64_t first, std::int64_t count) {
    if (count == 0) return;
    if (dimension == tensor_.shape.size()) {
      boxes_.push_back({from, to_, {}});
      to_ += count;
      return;
    }
    std::int64_t inner = 1;
    for (std::size_t d = dimension + 1; d < tensor_.shape.size(); ++d) inner *= tensor_.shape[d];
    const std::int64_t stride = tensor_.strides[dimension];
    std::int64_t row = first / inner;
    const std::int64_t skipped = first % inner;
    if (skipped > 0 || count < inner) {
      const std::int64_t head = std::min(inner - skipped, count);
      add(dimension + 1, from + row * stride, skipped, head);
      count -= head;
      ++row;
    }
    const std::int64_t rows = count / inner;
    if (rows > 0) add_rows(dimension, from + row * stride, rows, inner);
    add(dimension + 1, from + (row + rows) * stride, 0, count - rows * inner);
  }

 private:
  void add_rows(std::size_t dimension, std::int64_t from, std::int64_t rows, std::int64_t inner) {
    Box box{from, to_, {}};
    to_ += rows * inner;
    add_axis(box.axes, {rows, tensor_.strides[dimension], inner});
    for (std::size_t d = dimension + 1; d < tensor_.shape.size(); ++d) {
      inner /= tensor_.shape[d];
      add_axis(box.axes, {tensor_.shape[d], tensor_.strides[d], inner});
    }
    boxes_.push_back(std::move(box));
  }

  const TorchTensor& tensor_;
  std::vector<Box>& boxes_;
  std::int64_t to_ = 0;
};

template <std::int64_t kWidth>
void copy_plane(const std::byte* from, std::byte* to, const Axis& a, const Axis& b) {
  for (std::int64_t first = 0; first < a.length; first += kTile) {
    const std::int64_t end = std::min(first + kTile, a.length);
    for (std::int64_t j = 0; j < b.length; ++j) {
      for (std::int64_t i = first; i < end; ++i) {
        std::memcpy(to + (i * a.to + j * b.to) * kWidth, from + (i * a.from + j * b.from) * kWidth,
                    kWidth);
      }
    }
  }
}

void copy_plane(const std::byte* from, std::byte* to, const Axis& a, const Axis& b,
                std::int64_t width) {
  switch (width) {
    case 1:
      return copy_plane<1>(from, to, a, b);
    case 2:
      return copy_plane<2>(from, to, a, b);
    case 4:
      return copy_plane<4>(from, to, a, b);
    default:
      return copy_plane<kWidest>(from, to, a, b);
  }
}

/// Takes the one with the shortest steps; a single element if there is none.
Axis take_axis(Axes& axes, std::int64_t Axis::*step) {
  const auto least = std::min_element(
      axes.begin(), axes.end(), [&](const Axis& x, const Axis& y) { return x.*step < y.*step; });
  if (least == axes.end()) return {};
  const Axis axis = *least;
  axes.erase(least);
  return axis;
}

/// Calls visit(from, to) for each index of the axes, from the first one's on.
template <typename Visit>
void for_each_index(const Axes& axes, std::int64_t from, std::int64_t to, Visit&& visit) {
  std::vector<std::int64_t> index(axes.size(), 0);
  while (true) {
    visit(from, to);
    std::size_t d = axes.size();
    for (; d > 0; --d) {
      const Axis& axis = axes[d - 1];
      from += axis.from;
      to += axis.to;
      if (++index[d - 1] < axis.length) break;
      from -= axis.from * axis.length;
      to -= axis.to * axis.length;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

/// Copies from memory: runs, where elements follow each other on both sides, or else planes of
/// which one side is near in memory, and the other one in C order.
void copy_axes(const std::byte* from, std::byte* to, Axes axes, std::int64_t width) {
  const Axis b = take_axis(axes, &Axis::from);
  if (b.from == 1 && b.to == 1) {
    const auto run = static_cast<std::size_t>(b.length * width);
    for_each_index(axes, 0, 0, [&](std::int64_t at, std::int64_t target) {
      std::memcpy(to + target * width, from + at * width, run);
    });
    return;
  }
  const Axis a = take_axis(axes, &Axis::to);
  for_each_index(axes, 0, 0, [&](std::int64_t at, std::int64_t target) {
    copy_plane(from + at * width, to + target * width, a, b, width);
  });
}

/// Reads boxes of a tensor, by pieces of its storage.
class BoxReader {
 public:
  BoxReader(const ByteSource& source, const TorchTensor& tensor)
      : source_(source), tensor_(tensor), width_(element_size(tensor.dtype)) {}

  void read(const Box& box, std::byte* out) {
    take(box);
    // Pieces may share elements, and are then read one by one.
    const std::int64_t most = pieces_.from < span_ ? 1 : kMostPieces;
    const std::int64_t at_once = std::clamp<std::int64_t>(
        std::min(kBufferBytes / (span_ * width_), most), 1, pieces_.length);
    for_each_index(outer_, box.from, box.to, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t first = 0; first < pieces_.length; first += at_once) {
        const std::int64_t count = std::min(at_once, pieces_.length - first);
        const auto pieces = fetch(from + first * pieces_.from, count);
        Axes axes = inner_;
        if (count > 1) axes.push_back({count, span_, pieces_.to});
        copy_axes(pieces.data(), out + (to + first * pieces_.to) * width_, std::move(axes), width_);
      }
    });
  }

 private:
  /// Divides the axes: those of a piece, which is read with the gaps in it, the one along which
  /// pieces follow each other, and those around it.
  void take(const Box& box) {
    outer_ = box.axes;
    std::stable_sort(outer_.begin(), outer_.end(),
                     [](const Axis& x, const Axis& y) { return x.from > y.from; });
    inner_.clear();
    span_ = 1;
    pieces_ = {};
    while (!outer_.empty()) {
      const Axis& axis = outer_.back();
      const std::int64_t span = (axis.length - 1) * axis.from + span_;
      const bool is_near = (axis.from - span_) * width_ <= kSmallGap || axis.from <= 2 * span_;
      if (!is_near || span > kBufferBytes / width_) break;
      inner_.push_back(axis);
      span_ = span;
      outer_.pop_back();
    }
    if (outer_.empty()) return;
    pieces_ = outer_.back();
    outer_.pop_back();
  }

  /// @return pieces, one behind the other.
  /// @param from the first element of the first one.
  std::span<const std::byte> fetch(std::int64_t from, std::int64_t count) {
    const auto bytes = static_cast<std::uint64_t>(span_ * width_);
    const std::span<std::byte> buffer =
        scratch_for_pieces(static_cast<std::size_t>(bytes) * static_cast<std::size_t>(count));
    const std::uint64_t begin =
        tensor_.storage.offset() + static_cast<std::uint64_t>(from * width_);
    if (count == 1) {
      source_.read_at(begin, buffer);
      return buffer;
    }
    const auto stride = static_cast<std::uint64_t>(pieces_.from * width_);
    const Pieces pieces(ByteRange(begin, bytes), static_cast<std::uint64_t>(count),
                        {.source = stride, .memory = bytes});
    if (stride <= kGatherStride && source_.gather(pieces, buffer.data())) return buffer;
    std::vector<ReadPart> parts;
    parts.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < pieces.count(); ++i) {
      parts.push_back({pieces.offset_of(i), buffer.subspan(static_cast<std::size_t>(i * bytes),
                                                           static_cast<std::size_t>(bytes))});
    }
    source_.read_many(parts);
    return buffer;
  }

  const ByteSource& source_;
  const TorchTensor& tensor_;
  std::int64_t width_;
  Axes inner_;
  std::int64_t span_ = 1;  ///< of a piece, in elements
  Axis pieces_;
  Axes outer_;
};

}  // namespace

void read_strided(const ByteSource& source, const TorchTensor& tensor, std::uint64_t offset,
                  std::span<std::byte> out) {
  const std::int64_t width = element_size(tensor.dtype);
  BoxReader reader(source, tensor);
  std::vector<Box> boxes;
  const auto read = [&](const Stretch& stretch, std::byte* to) {
    boxes.clear();
    Division(tensor, boxes).add(0, tensor.first, stretch.first, stretch.count);
    for (const Box& box : boxes) reader.read(box, to);
  };
  while (!out.empty()) {
    // Whole elements, the first and the last of which may not be wanted as a whole.
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

}  // namespace reshardfs
