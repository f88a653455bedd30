// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/run_reader.h"

#include <algorithm>
#include <vector>

#include "reshardfs/node_fetches.h"

#include "plan/reading/source_sinks.h"
#include "storage/pieces.h"
#include "storage/pool/block_pool.h"

namespace reshardfs {
namespace {

// Two blocks of this size stay in a processor's own cache, beside what they are copied to.
constexpr std::uint64_t kScratchBytes = 256 << 10;

// Gathering makes a map and fills its page tables, some microseconds for what lies close together
// and as much again for each piece that lies far from the others.
constexpr std::uint64_t kGatherSpan = 32 << 10;
constexpr std::uint64_t kGatherStride = 32 << 10;
constexpr std::uint64_t kLongPiece = 16 << 10;

/// Grows to the largest block that its thread has needed, at most kScratchBytes.
std::span<std::byte> scratch(std::size_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return std::span(buffer).first(bytes);
}

/// Whether to leave out what lies between the pieces, without a call for each.
bool is_worth_gathering(const Pieces& pieces) noexcept {
  return pieces.stride() > pieces.length() && pieces.length() < kLongPiece &&
         pieces.stride() <= kGatherStride && pieces.span().length() > kGatherSpan;
}

void read_one_by_one(const Holding& holding, const Pieces& pieces, std::byte* out,
                     ReadBatch& batch) {
  for (std::uint64_t i = 0; i < pieces.count(); ++i) {
    const std::span piece(out + pieces.out_offset_of(i), static_cast<std::size_t>(pieces.length()));
    read_content(holding, pieces.offset_of(i), piece, batch);
  }
}

/// Of a far source all pieces are asked for before the first one is waited for.
void foresee_pieces(const StridedRun& run, const Pieces& pieces) {
  const ByteSource& source = *run.holding.file->source;
  if (!source.is_far() || ForeseenReads::any()) return;
  FarRanges ranges;
  ranges.take(run.holding, pieces);
  ranges.foresee(Foresight::kNow);
}

void read_with_gaps(const Holding& holding, const Pieces& pieces, std::byte* out,
                    ReadBatch& batch) {
  const std::uint64_t at_once = kScratchBytes / pieces.stride();
  for (std::uint64_t i = 0; i < pieces.count(); i += at_once) {
    const Pieces part = pieces.part(i, at_once);
    const std::span<std::byte> block = scratch(static_cast<std::size_t>(part.span().length()));
    read_content(holding, part.offset(), block, batch);
    copy_pieces(block.data(), part, out + pieces.out_offset_of(i));
  }
}

}  // namespace

void read_run(const StridedRun& run, std::span<std::byte> out, ReadBatch& batch) {
  const bool dense = run.source_stride == run.length && run.destination_stride == run.length;
  if (run.count == 1 || dense) {
    return read_content(run.holding, run.source_offset,
                        out.first(static_cast<std::size_t>(run.count * run.length)), batch);
  }
  const Pieces pieces = pieces_of(run);
  if (is_worth_gathering(pieces) && gather_content(run.holding, pieces, out.data(), batch)) return;
  foresee_pieces(run, pieces);
  // A call to read one piece costs as much as copying some 8 KiB. So pieces that lie further apart
  // are read one by one, closer ones together with what is between them.
  const auto read = pieces.stride() >= kJoinedStride ? read_one_by_one : read_with_gaps;
  read(run.holding, pieces, out.data(), batch);
}

}  // namespace reshardfs
