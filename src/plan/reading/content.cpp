// SPDX-License-Identifier: Apache-2.0
#include "plan/reading/content.h"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "reshardfs/error.h"

#include "base/process/counters.h"
#include "base/process/fault_report.h"

namespace reshardfs {
namespace {

/// Calls visit(range of the file) for the parts of a range of the stored bytes, in order.
/// @return the bytes that are not stored.
template <typename Visit>
std::uint64_t for_each_stored_part(const TensorEntry& entry, std::uint64_t offset,
                                   std::uint64_t length, Visit&& visit) {
  for (const ByteRange& extent : entry.extents) {
    if (length == 0) break;
    if (offset >= extent.length()) {
      offset -= extent.length();
      continue;
    }
    const std::uint64_t part = std::min(length, extent.length() - offset);
    visit(ByteRange(extent.offset() + offset, part));
    length -= part;
    offset = 0;
  }
  return length;
}

/// Bytes as they are stored, over the borders of extents.
void read_stored(const Holding& holding, std::uint64_t offset, std::span<std::byte> out,
                 bool foreseen) {
  const ByteSource& source = *holding.file->source;
  const std::uint64_t missing =
      for_each_stored_part(*holding.entry, offset, out.size(), [&](const ByteRange& part) {
        const auto length = static_cast<std::size_t>(part.length());
        read_part(source, {part.offset(), out.first(length), foreseen});
        out = out.subspan(length);
      });
  if (missing > 0) {
    throw Error(ErrorKind::kInternal, "a read beyond the end of the content")
        .in_file(holding.file->source->name())
        .for_parameter(holding.entry->name);
  }
}

/// The upper two bytes of each stored float32. The range may begin or end inside an element.
void read_upper_halves(const Holding& holding, std::uint64_t offset, std::span<std::byte> out,
                       bool foreseen) {
  std::array<std::byte, 16384> stored{};
  while (!out.empty()) {
    const std::uint64_t first_element = offset / 2;
    const std::uint64_t skip = offset % 2;
    const std::uint64_t end_element = (offset + out.size() + 1) / 2;
    const auto elements = static_cast<std::size_t>(
        std::min<std::uint64_t>(end_element - first_element, stored.size() / 4));
    read_stored(holding, first_element * 4, std::span(stored).first(elements * 4), foreseen);
    const std::size_t count = std::min<std::size_t>(out.size(), elements * 2 - skip);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t byte = i + skip;
      out[i] = stored[byte / 2 * 4 + 2 + byte % 2];
    }
    out = out.subspan(count);
    offset += count;
  }
}

}  // namespace

void ReadBatch::use(const ByteSource& source) {
  last_ = &source;
  if (!used_.empty() && used_.back() == &source) return;
  if (std::find(used_.begin(), used_.end(), &source) == used_.end()) used_.push_back(&source);
}

void ReadBatch::check() {
  for (const ByteSource* source : used_) {
    last_ = source;
    source->check_unchanged();
  }
}

void ReadBatch::rethrow_first() {
  hopeless_ = true;
  std::rethrow_exception(first_failure_);
}

void ReadBatch::tell() const noexcept {
  if (avoided_.empty()) return;
  counters().replica_read();
  try {
    std::rethrow_exception(first_failure_);
  } catch (const Error& error) {
    try {
      report_fault(LogEvent::kReplicaRead, error.file() + ": " + error.message(),
                   std::string("read from a replica instead: ") + error.what());
    } catch (const std::bad_alloc&) {
      // The bytes are right all the same.
    }
  }
}

bool ReadBatch::avoid_failed() {
  if (hopeless_ || last_ == nullptr || avoids(*last_)) return false;
  if (first_failure_ == nullptr) first_failure_ = std::current_exception();
  avoided_.push_back(last_);
  used_.clear();
  return true;
}

void add_stored_ranges(const TensorEntry& entry, const ByteRange& content,
                       std::vector<ByteRange>& out) {
  const bool halves = entry.encoding == ContentEncoding::kFloat32AsBFloat16;
  const std::uint64_t begin = halves ? content.offset() / 2 * 4 : content.offset();
  const std::uint64_t end = halves ? (content.end() + 1) / 2 * 4 : content.end();
  for_each_stored_part(entry, begin, end - begin,
                       [&](const ByteRange& part) { out.push_back(part); });
}

void add_unchanged(const Holding& holding, const ByteRange& content, std::uint64_t offset,
                   std::vector<StoredRange>& out) {
  if (!holding || holding.entry->encoding != ContentEncoding::kPlain) return;
  for_each_stored_part(
      *holding.entry, content.offset(), content.length(), [&](const ByteRange& part) {
        out.push_back({offset, part.length(), part.offset(), holding.file->source});
        offset += part.length();
      });
}

void read_content(const Holding& holding, std::uint64_t offset, std::span<std::byte> out,
                  ReadBatch& batch) {
  batch.use(*holding.file->source);
  if (holding.entry->encoding == ContentEncoding::kFloat32AsBFloat16) {
    read_upper_halves(holding, offset, out, batch.foreseen());
  } else {
    read_stored(holding, offset, out, batch.foreseen());
  }
}

bool is_stored_at(const TensorEntry& entry, const ByteRange& content,
                  std::uint64_t place) noexcept {
  if (entry.encoding != ContentEncoding::kPlain) return false;
  std::uint64_t offset = content.offset();
  std::uint64_t length = content.length();
  for (const ByteRange& extent : entry.extents) {
    if (length == 0) break;
    if (offset >= extent.length()) {
      offset -= extent.length();
      continue;
    }
    if (extent.offset() + offset != place) return false;
    const std::uint64_t part = std::min(length, extent.length() - offset);
    place += part;
    length -= part;
    offset = 0;
  }
  return length == 0;
}

bool gather_content(const Holding& holding, const StridedRanges& ranges, std::byte* out,
                    ReadBatch& batch) {
  if (holding.entry->encoding != ContentEncoding::kPlain) return false;
  batch.use(*holding.file->source);
  std::uint64_t begin = ranges.offset();
  for (const ByteRange& extent : holding.entry->extents) {
    if (begin >= extent.length()) {
      begin -= extent.length();
      continue;
    }
    // Ranges over the border of two extents are rare, and not worth more than the other way.
    if (ranges.span().length() > extent.length() - begin) return false;
    return holding.file->source->gather(ranges.moved_to(extent.offset() + begin), out);
  }
  return false;
}

}  // namespace reshardfs
