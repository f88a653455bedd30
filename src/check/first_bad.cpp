// SPDX-License-Identifier: Apache-2.0
#include "check/first_bad.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "check/element_stats.h"
#include "plan/reading/content.h"

namespace reshardfs {
namespace {

/// A multiple of every element's size.
constexpr std::uint64_t kSearchBlockBytes = 256U << 10U;

bool has_bad(DType dtype, const std::byte* in, std::size_t count) {
  const ElementStats stats = stats_of(dtype, in, count);
  return stats.nans + stats.infinities > 0;
}

/// @pre one of them is bad
std::size_t first_bad_of(DType dtype, const std::byte* in, std::size_t count) {
  const auto size = static_cast<std::size_t>(element_size(dtype));
  std::size_t begin = 0;
  while (count > 1) {
    const std::size_t half = count / 2;
    if (has_bad(dtype, in + begin * size, half)) {
      count = half;
    } else {
      begin += half;
      count -= half;
    }
  }
  return begin;
}

/// @param read (offset, bytes, batch) as ShownElements::read().
template <typename Read>
std::optional<std::uint64_t> first_bad_index(DType dtype, std::uint64_t bytes, const Read& read) {
  const auto size = static_cast<std::uint64_t>(element_size(dtype));
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(bytes, kSearchBlockBytes)));
  for (std::uint64_t offset = 0; offset < bytes; offset += kSearchBlockBytes) {
    const std::span<std::byte> block = std::span(buffer).first(
        static_cast<std::size_t>(std::min(kSearchBlockBytes, bytes - offset)));
    ReadBatch batch;
    read(offset, block, batch);
    batch.check();
    const std::size_t count = block.size() / size;
    if (has_bad(dtype, block.data(), count)) {
      return offset / size + first_bad_of(dtype, block.data(), count);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<BadElement> first_bad_element(const ShownElements& view) {
  const auto index = first_bad_index(view.dtype(), view.size(),
                                     [&](std::uint64_t offset, std::span<std::byte> out,
                                         ReadBatch& batch) { view.read(offset, out, batch); });
  if (!index) return std::nullopt;
  BadElement found{*index};
  const auto size = static_cast<std::uint64_t>(element_size(view.view().grid().dtype()));
  view.view().for_each_run({*index * size, size}, [&](const StridedRun& run) {
    if (run.holding) found.rank = run.holding.file->rank;
  });
  return found;
}

std::optional<BadElement> first_bad_element(const Holding& holding) {
  const auto index =
      first_bad_index(holding.entry->dtype, holding.entry->content_bytes,
                      [&](std::uint64_t offset, std::span<std::byte> out, ReadBatch& batch) {
                        read_content(holding, offset, out, batch);
                      });
  if (!index) return std::nullopt;
  return BadElement{*index, holding.file->rank};
}

}  // namespace reshardfs
