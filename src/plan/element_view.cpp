// SPDX-License-Identifier: Apache-2.0
#include "plan/element_view.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/cast.h"

namespace reshardfs {
namespace {

/// Whether the bytes differ: an Int4 is held as an Int8.
bool must_convert(DType from, DType to) noexcept {
  return from != to && !(from == DType::kInt4 && to == DType::kInt8);
}

}  // namespace

ElementView::ElementView(TensorView view, DType dtype)
    : view_(std::move(view)),
      dtype_(dtype),
      convert_(must_convert(view_.grid().dtype, dtype)),
      size_(view_.size() / static_cast<std::uint64_t>(element_size(view_.grid().dtype)) *
            static_cast<std::uint64_t>(element_size(dtype))) {}

void ElementView::read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const {
  if (convert_) {
    read_converted(offset, out, batch);
  } else {
    view_.read(offset, out, batch);
  }
}

/// In blocks of whole elements; the range may begin or end inside one.
void ElementView::read_converted(std::uint64_t offset, std::span<std::byte> out,
                                 ReadBatch& batch) const {
  constexpr std::size_t kBlockElements = 4096;
  constexpr std::size_t kWidest = 8;
  std::array<std::byte, kBlockElements * kWidest> from;  // NOLINT: filled before it is read
  std::array<std::byte, kBlockElements * kWidest> to;    // NOLINT
  const DType source = view_.grid().dtype;
  const auto from_bytes = static_cast<std::size_t>(element_size(source));
  const auto to_bytes = static_cast<std::size_t>(element_size(dtype_));
  while (!out.empty()) {
    const std::uint64_t first = offset / to_bytes;
    const std::size_t skip = offset % to_bytes;
    const std::size_t wanted = (skip + out.size() + to_bytes - 1) / to_bytes;
    const std::size_t elements = std::min(wanted, kBlockElements);
    view_.read(first * from_bytes, std::span(from).first(elements * from_bytes), batch);
    cast_elements(source, from.data(), dtype_, to.data(), elements);
    const std::size_t bytes = std::min(elements * to_bytes - skip, out.size());
    std::memcpy(out.data(), to.data() + skip, bytes);
    out = out.subspan(bytes);
    offset += bytes;
  }
}

}  // namespace reshardfs
