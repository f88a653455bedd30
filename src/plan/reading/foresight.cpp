// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/foresight.h"

#include <algorithm>
#include <exception>

#include "base/process/process_state.h"
#include "storage/pool/stream_windows.h"

namespace reshardfs {
namespace {

ProcessState<StreamWindows> the_readers("stream windows", [](const StreamWindows* /*before*/) {
  return new StreamWindows(StreamWindows::Begin::kAtFirstByte);
});

StreamWindows& readers() {
  return the_readers.get();
}

/// @return bytes of sources.
std::uint64_t foresee_range(const ByteRange& range, Foresight when, UsesOfRange uses) {
  RangesAhead ranges;
  uses(range, ranges);
  return ranges.foresee(when);
}

}  // namespace

ForeseenFile::~ForeseenFile() {
  if (has_readers_.load(std::memory_order_relaxed)) readers().forget(this);
}

bool ForeseenFile::foresee(std::uint64_t size, const ByteRange& range,
                           UsesOfRange uses) const noexcept {
  try {
    has_readers_.store(true, std::memory_order_relaxed);
    const auto advice = readers().advance(this, size, range, BlockPool::process().window(),
                                          StreamWindows::Clock::now());
    if (!advice.foreseen) foresee_range(range, Foresight::kNow, uses);
    if (advice.ahead.empty()) return false;
    const std::uint64_t bytes = foresee_range(advice.ahead, Foresight::kAhead, uses);
    readers().set_cost(this, bytes / advice.ahead.length());
    return advice.ahead.end() == size;
  } catch (const std::exception&) {
    // The read itself gets the error, and reports it.
    return false;
  }
}

void foresee_beginning(std::uint64_t size, UsesOfRange uses) noexcept {
  try {
    const std::uint64_t length = std::min(size, BlockPool::process().window());
    if (length > 0) foresee_range({0, length}, Foresight::kAhead, uses);
  } catch (const std::exception&) {
    // Without reading ahead, reads are only slower.
  }
}

}  // namespace reshardfs
