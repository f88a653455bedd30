// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/strided_read.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace reshardfs {
namespace {

/// Elements that are put in the order of their storage at once.
constexpr std::size_t kBlockBytes = 2U << 20U;
constexpr std::size_t kBlockElements = 1U << 18U;
/// Gaps that are read rather than skipped.
constexpr std::uint64_t kSmallGap = 512;
/// Bytes of storage in memory.
constexpr std::uint64_t kBatchBytes = 4U << 20U;

struct Element {
  std::uint64_t place = 0;  ///< in the source
  std::size_t target = 0;   ///< in the block
};

class Block {
 public:
  Block(const ByteSource& source, const TorchTensor& tensor)
      : source_(source),
        tensor_(tensor),
        width_(static_cast<std::size_t>(element_size(tensor.dtype))) {}

  /// @param first number of an element in C order.
  void read(std::int64_t first, std::size_t count, std::byte* out) {
    list(first, count);
    std::sort(elements_.begin(), elements_.end(),
              [](const Element& a, const Element& b) { return a.place < b.place; });
    for (std::size_t i = 0; i < elements_.size();) i = read_batch(i, out);
  }

 private:
  /// Walks as an odometer does.
  void list(std::int64_t first, std::size_t count) {
    const std::size_t dimensions = tensor_.shape.size();
    Shape index(dimensions);
    std::int64_t at = tensor_.first;
    for (std::size_t d = dimensions; d-- > 0;) {
      index[d] = first % tensor_.shape[d];
      first /= tensor_.shape[d];
      at += index[d] * tensor_.strides[d];
    }
    elements_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      elements_[i] = {tensor_.storage.offset() + static_cast<std::uint64_t>(at) * width_,
                      i * width_};
      for (std::size_t d = dimensions; d-- > 0;) {
        at += tensor_.strides[d];
        if (++index[d] < tensor_.shape[d]) break;
        at -= tensor_.shape[d] * tensor_.strides[d];
        index[d] = 0;
      }
    }
  }

  /// Reads as much as fits from element `i` on. @return the first one that is left.
  std::size_t read_batch(std::size_t i, std::byte* out) {
    runs_.clear();
    std::uint64_t bytes = 0;
    std::size_t end = i;
    for (; end < elements_.size(); ++end) {
      const std::uint64_t place = elements_[end].place;
      const std::uint64_t reached = runs_.empty() ? 0 : runs_.back().end();
      const bool joins = !runs_.empty() && place <= reached + kSmallGap;
      const std::uint64_t more =
          joins ? std::max(reached, place + width_) - reached : std::uint64_t{width_};
      if (bytes + more > kBatchBytes) break;
      bytes += more;
      if (joins) {
        runs_.back() = {runs_.back().offset(), runs_.back().length() + more};
      } else {
        runs_.emplace_back(place, width_);
      }
    }
    buffer_.resize(static_cast<std::size_t>(bytes));
    std::vector<ReadPart> parts;
    std::span<std::byte> left(buffer_);
    for (const ByteRange& run : runs_) {
      parts.push_back({run.offset(), left.first(static_cast<std::size_t>(run.length()))});
      left = left.subspan(static_cast<std::size_t>(run.length()));
    }
    source_.read_many(parts);
    for (auto part = parts.begin(); i < end; ++i) {
      while (elements_[i].place >= part->offset + part->out.size()) ++part;
      std::memcpy(out + elements_[i].target, &part->out[elements_[i].place - part->offset], width_);
    }
    return end;
  }

  const ByteSource& source_;
  const TorchTensor& tensor_;
  std::size_t width_;
  std::vector<Element> elements_;
  std::vector<ByteRange> runs_;
  std::vector<std::byte> buffer_;
};

}  // namespace

void read_strided(const ByteSource& source, const TorchTensor& tensor, std::uint64_t offset,
                  std::span<std::byte> out) {
  const auto width = static_cast<std::uint64_t>(element_size(tensor.dtype));
  const std::size_t most = std::min(kBlockElements, kBlockBytes / width);
  Block block(source, tensor);
  std::vector<std::byte> whole;
  while (!out.empty()) {
    const std::uint64_t first = offset / width;
    const auto skipped = static_cast<std::size_t>(offset % width);
    const auto wanted = static_cast<std::size_t>((skipped + out.size() + width - 1) / width);
    const std::size_t count = std::min(wanted, most);
    whole.resize(count * static_cast<std::size_t>(width));
    block.read(static_cast<std::int64_t>(first), count, whole.data());
    const std::size_t bytes = std::min(whole.size() - skipped, out.size());
    std::memcpy(out.data(), whole.data() + skipped, bytes);
    offset += bytes;
    out = out.subspan(bytes);
  }
}

}  // namespace reshardfs
