// SPDX-License-Identifier: Apache-2.0
#include "plan/target/shown_elements.h"

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

std::span<std::byte> cast_buffer() {
  thread_local std::vector<std::byte> buffer(kBlockBytes);
  return buffer;
}

/// For what lies between two conversions.
std::span<std::byte> second_scratch() {
  thread_local std::vector<std::byte> buffer(2 * kBlockBytes);
  return buffer;
}

/// @param bytes of the elements in type `from`, which may be narrower than `through` by a half.
void convert(DType from, std::span<const std::byte> bytes, DType through, DType to, std::byte* out,
             std::size_t elements) {
  if (!must_convert(from, through)) return cast_elements(from, bytes.data(), to, out, elements);
  if (!must_convert(through, to)) return cast_elements(from, bytes.data(), through, out, elements);
  const auto width = static_cast<std::size_t>(element_size(through));
  const std::size_t at_once = second_scratch().size() / width;
  const std::size_t from_width = bytes.size() / elements;
  const auto to_width = static_cast<std::size_t>(element_size(to));
  for (std::size_t done = 0; done < elements;) {
    const std::size_t count = std::min(at_once, elements - done);
    cast_elements(from, bytes.data() + done * from_width, through, second_scratch().data(), count);
    cast_elements(through, second_scratch().data(), to, out + done * to_width, count);
    done += count;
  }
}

}  // namespace

ShownElements::ShownElements(ShownTensor view, DType dtype)
    : ShownElements(std::move(view), dtype, dtype) {}

ShownElements::ShownElements(ShownTensor view, DType through, DType dtype)
    : view_(std::move(view)),
      through_(through),
      dtype_(dtype),
      convert_(must_convert(view_.grid().dtype(), through) || must_convert(through, dtype)),
      size_(mul_or_throw(
          view_.size() / static_cast<std::uint64_t>(element_size(view_.grid().dtype())),
          static_cast<std::uint64_t>(element_size(dtype)), "the content's size")) {}

void ShownElements::read(std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) const {
  if (convert_) {
    read_converted(offset, out, batch);
  } else {
    view_.read(offset, out, batch);
  }
}

void ShownElements::for_each_use(const ByteRange& bytes, SourceSink& sink) const {
  if (!convert_) return view_.for_each_use(bytes, sink);
  const auto from = static_cast<std::uint64_t>(element_size(view_.grid().dtype()));
  const auto to = static_cast<std::uint64_t>(element_size(dtype_));
  view_.for_each_use(
      ByteRange::between(bytes.offset() / to * from, (bytes.end() + to - 1) / to * from), sink);
}

void ShownElements::add_unchanged(const ByteRange& bytes, std::uint64_t place, std::uint64_t least,
                                  std::vector<StoredRange>& out) const {
  if (convert_) return;
  view_.for_each_run(bytes, [&](const StridedRun& run) {
    if (run.literal != nullptr) return;
    const bool dense = run.source_stride == run.length && run.destination_stride == run.length;
    const std::uint64_t count = dense ? 1 : run.count;
    const std::uint64_t length = dense ? run.length * run.count : run.length;
    if (count > 1 && length < least) return;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t offset = run.destination_offset + i * run.destination_stride;
      reshardfs::add_unchanged(run.holding,
                               ByteRange(run.source_offset + i * run.source_stride, length),
                               place + (offset - bytes.offset()), out);
    }
  });
}

/// Whole elements are converted straight to `out`; the range may begin or end inside one.
void ShownElements::read_converted(std::uint64_t offset, std::span<std::byte> out,
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
    const std::span<std::byte> from = cast_buffer().first(elements * from_bytes);
    view_.read(first * from_bytes, from, batch);
    std::size_t bytes = elements * to_bytes;
    if (whole) {
      convert(source, from, through_, dtype_, out.data(), elements);
    } else {
      std::array<std::byte, kWidest> to{};
      convert(source, from, through_, dtype_, to.data(), 1);
      bytes = std::min(to_bytes - skip, out.size());
      std::memcpy(out.data(), to.data() + skip, bytes);
    }
    out = out.subspan(bytes);
    offset += bytes;
  }
}

}  // namespace reshardfs
