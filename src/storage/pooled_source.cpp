// SPDX-License-Identifier: Apache-2.0
#include "storage/pooled_source.h"

#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/counters.h"

namespace reshardfs {

PooledSource::PooledSource(RangeFetcherPtr fetcher, BlockPool& pool)
    : fetcher_(std::move(fetcher)), pool_(pool), number_(pool.add_source()) {}

PooledSource::~PooledSource() {
  pool_.remove_source(number_);
}

void PooledSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size() || out.size() > size() - offset) {
    throw Error(ErrorKind::kBadInput, std::to_string(out.size()) +
                                          " bytes were asked for, but the file has only " +
                                          std::to_string(size()))
        .in_file(name())
        .at_offset(offset);
  }
  if (out.empty()) return;
  if (!ForeseenReads::any()) read_ahead_of(ByteRange(offset, out.size()));
  pool_.read(number_, *fetcher_, offset, out);
}

void PooledSource::read_ahead_of(const ByteRange& read) const noexcept {
  try {
    const auto advice =
        readers_.advance(this, size(), read, pool_.window(), StreamWindows::Clock::now());
    if (!advice.ahead.empty()) foresee(std::span(&advice.ahead, 1), Foresight::kAhead);
  } catch (const std::exception&) {
    // It is only slower without.
  }
}

void PooledSource::read_many(std::span<const ReadPart> parts) const {
  if (parts.size() > 1) {
    std::vector<ByteRange> ranges;
    ranges.reserve(parts.size());
    for (const ReadPart& part : parts) ranges.emplace_back(part.offset, part.out.size());
    foresee(ranges, Foresight::kNow);
  }
  for (const ReadPart& part : parts) read_at(part.offset, part.out);
}

void PooledSource::foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept {
  try {
    const ByteRange all = ByteRange::whole(size());
    for (const ByteRange& range : ranges) {
      if (!all.contains(range)) return;  // who reads it gets the error
    }
    pool_.foresee(number_, *fetcher_, ranges, when);
  } catch (const std::exception&) {
    // Without memory for it, it is fetched when it is read.
  }
}

}  // namespace reshardfs
