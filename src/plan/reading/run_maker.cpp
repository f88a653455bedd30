// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/run_maker.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"

namespace reshardfs {
namespace {

/// How many elements are one piece: those of the innermost loop, if they follow one another.
std::int64_t piece_of(const Nest& nest, bool is_literal) noexcept {
  const auto loops = nest.loops();
  const bool follow = !loops.empty() && loops[0].to == 1 && (is_literal || loops[0].from == 1);
  return follow ? loops[0].count : 1;
}

/// The number of the loop that makes a strided run: pieces that lie as close together in the source
/// as there are, but do not overlap. That of no loop if there is none.
std::size_t stride_of(const Nest& nest, std::int64_t piece) noexcept {
  const auto loops = nest.loops();
  std::size_t best = loops.size();
  for (std::size_t i = piece > 1 ? 1 : 0; i < loops.size(); ++i) {
    if (loops[i].from < piece) continue;
    if (best == loops.size() || loops[i].from < loops[best].from) best = i;
  }
  return best;
}

}  // namespace

void RunMaker::take(const SourceNest& source) {
  if (source.literal != nullptr) return take_literal(source);
  const Nest& nest = source.nest;
  const std::int64_t piece = piece_of(nest, false);
  const std::size_t stride = stride_of(nest, piece);
  const std::size_t taken = (piece > 1 ? 1U : 0U) + (stride < nest.loops().size() ? 1U : 0U);
  const Nest::Loop loop = stride < nest.loops().size() ? nest.loops()[stride] : Nest::Loop();
  StridedRun run{source.holding, source.cell};
  run.length = unsigned_of(piece) * element_;
  run.count = unsigned_of(loop.count);
  run.source_stride = loop.count == 1 ? run.length : unsigned_of(loop.from) * element_;
  run.destination_stride = loop.count == 1 ? run.length : unsigned_of(loop.to) * element_;
  const auto add_at = [&](std::int64_t from, std::int64_t to) {
    run.source_offset = unsigned_of(from) * element_;
    run.destination_offset = unsigned_of(to) * element_;
    add(run);
  };
  if (taken == nest.loops().size()) return add_at(nest.from, nest.to);
  Nest outer = nest;
  if (stride < nest.loops().size()) outer.take(stride);
  if (piece > 1) outer.take(0);
  for_each_index(outer, add_at);
}

void RunMaker::take_literal(const SourceNest& source) {
  finish();
  const std::int64_t piece = piece_of(source.nest, true);
  Nest outer = source.nest;
  if (piece > 1) outer.take(0);
  for_each_index(outer, [&](std::int64_t /*from*/, std::int64_t to) {
    const std::uint64_t begin = unsigned_of(to) * element_;
    StridedRun run;
    run.destination_offset = std::max(begin, wanted_.offset());
    run.length =
        std::min(begin + unsigned_of(piece) * element_, wanted_.end()) - run.destination_offset;
    run.source_stride = run.length;
    run.destination_stride = run.length;
    std::vector<std::byte> bytes = *source.literal;
    const auto skipped = static_cast<std::ptrdiff_t>(run.destination_offset - begin);
    std::rotate(bytes.begin(), bytes.begin() + skipped, bytes.end());
    run.literal = &bytes;
    visit_(run);
  });
}

/// Cuts off the bytes that are not wanted, of the first piece and the last one.
void RunMaker::add(const StridedRun& run) {
  const std::uint64_t last = run.destination_offset + (run.count - 1) * run.destination_stride;
  const std::uint64_t before =
      wanted_.offset() - std::min(wanted_.offset(), run.destination_offset);
  const std::uint64_t behind = last + run.length - std::min(wanted_.end(), last + run.length);
  if (before == 0 && behind == 0) return add_wanted(run);
  const auto part = [&](std::uint64_t first, std::uint64_t count) {
    StridedRun pieces = run;
    pieces.source_offset += first * run.source_stride;
    pieces.destination_offset += first * run.destination_stride;
    pieces.count = count;
    if (count == 1) pieces.source_stride = pieces.destination_stride = run.length;
    return pieces;
  };
  const auto add_part = [&](StridedRun piece, std::uint64_t skipped, std::uint64_t left_out) {
    piece.source_offset += skipped;
    piece.destination_offset += skipped;
    piece.length -= skipped + left_out;
    piece.source_stride = piece.destination_stride = piece.length;
    add_wanted(piece);
  };
  if (run.count == 1) return add_part(run, before, behind);
  const std::uint64_t first = before > 0 ? 1 : 0;
  const std::uint64_t end = behind > 0 ? run.count - 1 : run.count;
  if (before > 0) add_part(part(0, 1), before, 0);
  if (first < end) add_wanted(part(first, end - first));
  if (behind > 0) add_part(part(run.count - 1, 1), 0, behind);
}

void RunMaker::add_wanted(const StridedRun& run) {
  const bool follows = pending_.length > 0 && pending_.count == 1 && run.count == 1 &&
                       pending_.cell == run.cell && pending_.holding == run.holding &&
                       pending_.source_offset + pending_.length == run.source_offset &&
                       pending_.destination_offset + pending_.length == run.destination_offset;
  if (!follows) {
    finish();
    if (run.count > 1) return visit_(run);
    pending_ = run;
    return;
  }
  pending_.length += run.length;
  pending_.source_stride = pending_.length;
  pending_.destination_stride = pending_.length;
}

void RunMaker::finish() {
  if (pending_.length > 0) visit_(pending_);
  pending_.length = 0;
}

}  // namespace reshardfs
