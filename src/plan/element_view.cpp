// SPDX-License-Identifier: Apache-2.0
#include "plan/element_view.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/cast.h"
#include "base/checked.h"

namespace reshardfs {
namespace {

/// Whether the bytes differ: an Int4 is held as an Int8.
bool must_convert(DType from, DType to) noexcept {
  return from != to && !(from == DType::kInt4 && to == DType::kInt8);
}

constexpr std::size_t kWidest = 8;
// Stays in a processor's own cache until it is converted.
constexpr std::size_t kBlockBytes = 64 << 10;

std::span<std::byte> scratch() {
  thread_local std::vector<std::byte> buffer(kBlockBytes);
  return buffer;
}

}  // namespace

ElementView::ElementView(TensorView view, DType dtype)
    : view_(std::move(view)),
      dtype_(dtype),
      convert_(must_convert(view_.grid().dtype(), dtype)),
      size_(mul_or_throw(
          view_.size() / static_cast<std::uint64_t>(element_size(view_.grid().dtype())),
          static_cast<std::uint64_t>(element_size(dtype)), "the content's size")) {}

void ElementView::read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const {
  if (convert_) {
    read_converted(offset, out, batch);
  } else {
    view_.read(offset, out, batch);
  }
}

/// Whole elements are converted straight to `out`; the range may begin or end inside one.
void ElementView::read_converted(std::uint64_t offset, std::span<std::byte> out,
                                 ReadBatch& batch) const {
  const DType source = view_.grid().dtype();
  const auto from_bytes = static_cast<std::size_t>(element_size(source));
  const auto to_bytes = static_cast<std::size_t>(element_size(dtype_));
  while (!out.empty()) {
    const std::uint64_t first = offset / to_bytes;
    const std::size_t skip = offset % to_bytes;
    const bool whole = skip == 0 && out.size() >= to_bytes;
    const std::size_t elements =
        whole ? std::min(out.size() / to_bytes, kBlockBytes / from_bytes) : 1;
    const std::span<std::byte> from = scratch().first(elements * from_bytes);
    view_.read(first * from_bytes, from, batch);
    std::size_t bytes = elements * to_bytes;
    if (whole) {
      cast_elements(source, from.data(), dtype_, out.data(), elements);
    } else {
      std::array<std::byte, kWidest> to{};
      cast_elements(source, from.data(), dtype_, to.data(), 1);
      bytes = std::min(to_bytes - skip, out.size());
      std::memcpy(out.data(), to.data() + skip, bytes);
    }
    out = out.subspan(bytes);
    offset += bytes;
  }
}

}  // namespace reshardfs
