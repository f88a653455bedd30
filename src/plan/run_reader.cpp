// SPDX-License-Identifier: Apache-2.0
#include "plan/run_reader.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace reshardfs {
namespace {

// A call to read one piece costs as much as copying some 8 KiB. So pieces that lie further apart
// than this are read one by one, closer ones together with what is between them.
constexpr std::uint64_t kJoinStride = 8 << 10;
constexpr std::uint64_t kScratchBytes = 1 << 20;

/// Grows to the largest block that its thread has needed, at most kScratchBytes.
std::span<std::byte> scratch(std::size_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return std::span(buffer).first(bytes);
}

void copy_pieces(const std::byte* from, std::uint64_t from_stride, std::byte* to,
                 std::uint64_t to_stride, std::uint64_t length, std::uint64_t count) {
  // A constant length lets the compiler turn the copy into a few moves.
  const auto copy = [&](auto constant_length) {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * to_stride, from + i * from_stride, constant_length);
    }
  };
  switch (length) {
    case 2:
      return copy(std::integral_constant<std::size_t, 2>());
    case 4:
      return copy(std::integral_constant<std::size_t, 4>());
    case 8:
      return copy(std::integral_constant<std::size_t, 8>());
    case 16:
      return copy(std::integral_constant<std::size_t, 16>());
    case 32:
      return copy(std::integral_constant<std::size_t, 32>());
    case 64:
      return copy(std::integral_constant<std::size_t, 64>());
    default:
      return copy(static_cast<std::size_t>(length));
  }
}

}  // namespace

void read_run(const StridedRun& run, std::span<std::byte> out, ReadBatch& batch) {
  const auto length = static_cast<std::size_t>(run.length);
  const bool dense = run.source_stride == run.length;
  if (run.count == 1 || (dense && run.destination_stride == run.length)) {
    read_content(*run.holding, run.source_offset,
                 out.first(static_cast<std::size_t>(run.count * run.length)), batch);
    return;
  }
  if (run.source_stride >= kJoinStride) {
    for (std::uint64_t i = 0; i < run.count; ++i) {
      const auto at = static_cast<std::size_t>(i * run.destination_stride);
      read_content(*run.holding, run.source_offset + i * run.source_stride, out.subspan(at, length),
                   batch);
    }
    return;
  }
  const std::uint64_t at_once = kScratchBytes / run.source_stride;
  for (std::uint64_t i = 0; i < run.count; i += at_once) {
    const std::uint64_t pieces = std::min(at_once, run.count - i);
    const std::span<std::byte> block =
        scratch(static_cast<std::size_t>((pieces - 1) * run.source_stride + run.length));
    read_content(*run.holding, run.source_offset + i * run.source_stride, block, batch);
    copy_pieces(block.data(), run.source_stride,
                out.data() + static_cast<std::size_t>(i * run.destination_stride),
                run.destination_stride, run.length, pieces);
  }
}

}  // namespace reshardfs
