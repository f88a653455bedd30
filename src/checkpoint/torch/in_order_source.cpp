// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/in_order_source.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/checked.h"
#include "checkpoint/strided_read.h"
#include "format/torch/tensor_range.h"

namespace reshardfs {

ByteRange InOrderSource::add(TorchTensor tensor) {
  const ByteRange place(size_, content_bytes(tensor.shape, tensor.dtype));
  if (!place.empty()) behind_.push_back({size_, std::move(tensor)});
  size_ = place.end();
  return place;
}

void InOrderSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  require_in_source(*this, offset, out.size());
  const std::uint64_t file = file_->size();
  if (offset < file) {
    const auto part =
        out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), file - offset)));
    file_->read_at(offset, part);
    offset += part.size();
    out = out.subspan(part.size());
  }
  while (!out.empty()) {
    const auto next =
        std::upper_bound(behind_.begin(), behind_.end(), offset,
                         [](std::uint64_t at, const Behind& behind) { return at < behind.begin; });
    const std::uint64_t end = next == behind_.end() ? size_ : next->begin;
    const Behind& behind = *std::prev(next);
    const auto part =
        out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), end - offset)));
    read_strided(*file_, behind.tensor, offset - behind.begin, part);
    offset += part.size();
    out = out.subspan(part.size());
  }
}

void InOrderSource::read_many(std::span<const ReadRequest> parts) const {
  std::vector<ReadRequest> in_file;
  for (const ReadRequest& part : parts) {
    require_in_source(*this, part.offset, part.out.size());
    if (part.offset + part.out.size() <= file_->size()) {
      in_file.push_back(part);
    } else {
      read_at(part.offset, part.out);
    }
  }
  file_->read_many(in_file);
}

void InOrderSource::foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept {
  if (!file_->is_far()) return;
  try {
    std::vector<ByteRange> in_file;
    for (const ByteRange& range : ranges) {
      if (range.end() <= file_->size()) in_file.push_back(range);
    }
    file_->foresee(in_file, when);
  } catch (const std::exception&) {
    // Whoever reads it finds out.
  }
}

bool InOrderSource::gather(const StridedRanges& ranges, std::byte* out) const {
  if (ranges.span().end() > file_->size()) return false;
  return file_->gather(ranges, out);
}

}  // namespace reshardfs
