// SPDX-License-Identifier: Apache-2.0
#include "plan/run_maker.h"

#include <vector>

namespace reshardfs {
namespace {

std::uint64_t unsigned_of(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value);
}

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

void RunMaker::take(const SourceNest& source, const ElementPart& part) {
  if (source.literal != nullptr) return take_literal(source, part);
  const Nest& nest = source.nest;
  const std::int64_t piece = part.is_whole() ? piece_of(nest, false) : 1;
  const std::size_t stride = stride_of(nest, piece);
  const std::size_t taken = (piece > 1 ? 1U : 0U) + (stride < nest.loops().size() ? 1U : 0U);
  const Nest::Loop loop = stride < nest.loops().size() ? nest.loops()[stride] : Nest::Loop();
  StridedRun run{source.holding, source.cell};
  run.length = part.is_whole() ? unsigned_of(piece) * part.size : part.width;
  run.count = unsigned_of(loop.count);
  run.source_stride = loop.count == 1 ? run.length : unsigned_of(loop.from) * part.size;
  run.destination_stride = loop.count == 1 ? run.length : unsigned_of(loop.to) * part.size;
  const auto add_at = [&](std::int64_t from, std::int64_t to) {
    run.source_offset = unsigned_of(from) * part.size + part.skip;
    run.destination_offset = unsigned_of(to) * part.size + part.skip;
    add(run);
  };
  if (taken == nest.loops().size()) return add_at(nest.from, nest.to);
  Nest outer = nest;
  if (stride < nest.loops().size()) outer.take(stride);
  if (piece > 1) outer.take(0);
  for_each_index(outer, add_at);
}

void RunMaker::take_literal(const SourceNest& source, const ElementPart& part) {
  finish();
  const std::int64_t piece = part.is_whole() ? piece_of(source.nest, true) : 1;
  const auto begin = source.literal->begin() + static_cast<std::ptrdiff_t>(part.skip);
  const std::vector<std::byte> bytes(begin, begin + static_cast<std::ptrdiff_t>(part.width));
  StridedRun run;
  run.literal = &bytes;
  run.length = part.width * unsigned_of(piece);
  run.source_stride = run.length;
  run.destination_stride = run.length;
  Nest outer = source.nest;
  if (piece > 1) outer.take(0);
  for_each_index(outer, [&](std::int64_t /*from*/, std::int64_t to) {
    run.destination_offset = unsigned_of(to) * part.size + part.skip;
    visit_(run);
  });
}

void RunMaker::add(const StridedRun& run) {
  const bool follows = pending_.length > 0 && pending_.count == 1 && run.count == 1 &&
                       pending_.cell == run.cell && pending_.holding == run.holding &&
                       pending_.source_offset + pending_.length == run.source_offset &&
                       pending_.destination_offset + pending_.length == run.destination_offset;
  if (!follows) {
    finish();
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
