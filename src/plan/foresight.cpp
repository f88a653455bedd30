// SPDX-License-Identifier: Apache-2.0
#include "plan/foresight.h"

#include <algorithm>
#include <exception>
#include <memory>

#include "base/process_state.h"
#include "storage/stream_windows.h"

namespace reshardfs {
namespace {

/// What is made without a source (frames, casts) is made all the same, into this.
constexpr std::uint64_t kChunk = 1 << 20;

std::span<std::byte> scratch() {
  // NOLINTNEXTLINE(modernize-avoid-c-arrays): not filled with zeros
  thread_local const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kChunk);
  return {buffer.get(), kChunk};
}

ProcessState<StreamWindows> the_readers("stream windows", [](const StreamWindows* /*before*/) {
  return new StreamWindows(StreamWindows::Begin::kAtFirstByte);
});

StreamWindows& readers() {
  return the_readers.get();
}

/// @return bytes of sources.
std::uint64_t foresee_range(const ByteRange& range, Foresight when, const ReadRange& read) {
  ReadBatch batch(ReadBatch::Purpose::kForesee);
  for (std::uint64_t at = range.offset(); at < range.end(); at += kChunk) {
    const std::uint64_t bytes = std::min(kChunk, range.end() - at);
    read(at, scratch().first(static_cast<std::size_t>(bytes)), batch);
  }
  std::uint64_t bytes = 0;
  for (const auto& [source, ranges] : batch.foreseen()) {
    for (const ByteRange& part : ranges) bytes += part.length();
    source->foresee(ranges, when);
  }
  return bytes;
}

}  // namespace

ForeseenFile::~ForeseenFile() {
  if (has_readers_.load(std::memory_order_relaxed)) readers().forget(this);
}

void ForeseenFile::foresee(std::uint64_t size, const ByteRange& range,
                           const ReadRange& read) const noexcept {
  try {
    has_readers_.store(true, std::memory_order_relaxed);
    const auto advice = readers().advance(this, size, range, BlockPool::process().window(),
                                          StreamWindows::Clock::now());
    if (!advice.foreseen) foresee_range(range, Foresight::kNow, read);
    if (advice.ahead.empty()) return;
    const std::uint64_t bytes = foresee_range(advice.ahead, Foresight::kAhead, read);
    readers().set_cost(this, bytes / advice.ahead.length());
  } catch (const std::exception&) {
    // The read itself gets the error, and tells of it.
  }
}

}  // namespace reshardfs
