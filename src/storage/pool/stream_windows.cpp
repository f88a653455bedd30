// SPDX-License-Identifier: Apache-2.0
#include "storage/pool/stream_windows.h"

#include <algorithm>

namespace reshardfs {
namespace {

// What is advised at once is no less, so that requests are not small.
constexpr std::uint64_t kLeastStep = 1 << 20;
// A window grows when this part of it has been read.
constexpr std::uint64_t kGrowth = 4;
// Between the end of a read and the beginning of the next one: what a program passes over, and how
// far the kernel's requests overtake each other.
constexpr std::uint64_t kGap = 64 << 10;
constexpr std::uint64_t kNear = 4 << 20;
// So many reads that are only near each other are no chance.
constexpr unsigned kEnough = 4;

}  // namespace

std::uint64_t StreamWindows::active(Clock::time_point now) const noexcept {
  std::uint64_t count = 0;
  for (const Stream& stream : streams_) {
    if (now - stream.used > kActive) break;
    // Nothing is fetched ahead of the others.
    if (stream.window > 0) ++count;
  }
  return std::max<std::uint64_t>(count, 1);
}

/// A random read may come near the last place by chance. It must not count as a sequential one,
/// because what is then fetched ahead would be wasted.
bool StreamWindows::goes_on(Stream& stream, const ByteRange& read) noexcept {
  if (stream.window > 0) return true;  // stream_of() takes nothing that is further away
  const bool follows = read.offset() <= stream.next + kGap;
  const bool is_near = read.offset() <= stream.next + kNear;
  stream.in_a_row = is_near && !follows ? stream.in_a_row + 1 : 0;
  return follows || stream.in_a_row >= kEnough;
}

/// Reads far behind the furthest one are of the stream, too, as long as its region reaches back.
StreamWindows::Streams::iterator StreamWindows::stream_of(const void* file,
                                                          const ByteRange& read) noexcept {
  const auto is_of_region = [&](const Stream& stream) {
    if (stream.file != file || stream.window == 0) return false;
    const std::uint64_t behind = stream.next - std::min(disorder_, stream.next);
    const std::uint64_t begin = has_regions() ? std::min(stream.base, behind) : behind;
    return read.end() >= begin &&
           read.offset() <= std::min(stream.next + disorder_, stream.horizon + kNear);
  };
  const auto found = std::find_if(streams_.begin(), streams_.end(), is_of_region);
  if (found != streams_.end()) return found;
  return std::find_if(streams_.begin(), streams_.end(), [&](const Stream& stream) {
    return stream.file == file && stream.window == 0 && read.offset() <= stream.next + disorder_ &&
           read.end() + disorder_ >= stream.next;
  });
}

/// Another stream with a window that the stream reaches if it is advised up to `wanted`.
StreamWindows::Streams::iterator StreamWindows::met_by(const Stream& stream,
                                                       std::uint64_t wanted) noexcept {
  if (!has_regions()) return streams_.end();
  return std::find_if(streams_.begin(), streams_.end(), [&](const Stream& other) {
    return &other != &stream && other.file == stream.file && other.window > 0 &&
           other.base <= wanted && other.horizon >= stream.base;
  });
}

void StreamWindows::absorb(Stream& stream, const Stream& other) noexcept {
  stream.base = std::min(stream.base, other.base);
  if (other.next > stream.next) {
    stream.next = other.next;
    stream.grows_at = other.grows_at;
  }
  stream.horizon = std::max(stream.horizon, other.horizon);
  stream.window = std::max(stream.window, other.window);
}

StreamWindows::Advice StreamWindows::advance(const void* file, std::uint64_t size,
                                             const ByteRange& read, std::uint64_t largest,
                                             Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  if (begin_ == Begin::kAtFirstByte && read.offset() == 0) {
    // A read from the beginning after all was read is another reader's; the blocks may be gone.
    streams_.remove_if(
        [&](const Stream& stream) { return stream.file == file && stream.next >= size; });
  }
  const auto found = stream_of(file, read);
  const bool is_new = found == streams_.end();
  if (is_new) {
    if (streams_.size() == kMaxStreams) streams_.pop_back();
    streams_.push_front({.file = file,
                         .base = read.offset(),
                         .next = read.end(),
                         .horizon = read.end(),
                         .grows_at = read.end(),
                         .used = now});
    if (begin_ == Begin::kAtSecondRead || read.offset() > 0) return {};
  } else {
    streams_.splice(streams_.begin(), streams_, found);
  }
  Stream& stream = streams_.front();
  stream.used = now;
  Advice advice;
  // Memory may have lost what lies further behind.
  advice.foreseen =
      read.end() <= stream.horizon && stream.window > 0 && read.end() + disorder_ >= stream.next;
  if (read.end() <= stream.next && !is_new) {
    if (read.end() + kNear < stream.next) stream.in_a_row = 0;
    return advice;
  }
  if (!is_new && !goes_on(stream, read)) {
    stream.base = read.offset();
    stream.next = stream.horizon = stream.grows_at = read.end();
    stream.window = 0;
    return {};
  }
  stream.next = read.end();
  stream.horizon = std::max(stream.horizon, stream.next);

  const std::uint64_t readers = active(now);
  const std::uint64_t behind = std::max(kBehind / readers, disorder_);
  stream.base = std::max(stream.base, stream.next - std::min(behind, stream.next));
  const std::uint64_t most = std::max(largest / readers / stream.cost, kFirst);
  if (stream.window == 0) {
    stream.window = kFirst;
    stream.grows_at = stream.next + kFirst / kGrowth;
  } else if (stream.next >= stream.grows_at) {
    stream.window = std::min(stream.window * 2, most);
    stream.grows_at = stream.next + stream.window / kGrowth;
  }
  stream.window = std::min(stream.window, most);
  const std::uint64_t wanted = std::min(stream.next + stream.window, size);
  // What another one was advised of is not advised again.
  if (const auto other = met_by(stream, wanted); other != streams_.end()) {
    const std::uint64_t end = std::max(std::min(other->base, wanted), stream.horizon);
    advice.ahead = ByteRange::between(stream.horizon, end);
    absorb(stream, *other);
    streams_.erase(other);
    return advice;
  }
  const std::uint64_t step = std::max(stream.window / 4, kLeastStep);
  if (wanted >= stream.horizon + step || (wanted == size && wanted > stream.horizon)) {
    advice.ahead = ByteRange::between(stream.horizon, wanted);
    stream.horizon = wanted;
  }
  return advice;
}

void StreamWindows::set_cost(const void* file, std::uint64_t factor) noexcept {
  const std::scoped_lock lock(mutex_);
  for (Stream& stream : streams_) {
    if (stream.file == file) stream.cost = std::max<std::uint64_t>(factor, 1);
  }
}

void StreamWindows::forget(const void* file) noexcept {
  const std::scoped_lock lock(mutex_);
  streams_.remove_if([&](const Stream& stream) { return stream.file == file; });
}

}  // namespace reshardfs
