// SPDX-License-Identifier: Apache-2.0
#include "check/replicas.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace reshardfs {
namespace {

constexpr std::uint64_t kReplicaBlockBytes = 1U << 20U;

/// Tells a failed read from which copy it was.
struct ReadFailure {
  std::size_t copy;
  Error error;
};

void read_copy(const std::vector<Holding>& copies, std::size_t copy, std::uint64_t offset,
               std::span<std::byte> out, CopyReader& reader) {
  try {
    reader.read(copies[copy], offset, out);
  } catch (const Error& error) {
    throw ReadFailure{copy, error};
  }
}

/// Adds the bytes of a block that differ.
void tally(std::span<const std::byte> reference, std::span<const std::byte> other,
           std::uint64_t offset, ReplicaDifference& difference) {
  if (std::memcmp(reference.data(), other.data(), reference.size()) == 0) return;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (reference[i] == other[i]) continue;
    if (difference.bytes++ == 0) difference.first = offset + i;
  }
}

/// All copies against the one at `reference`.
std::vector<ReplicaDifference> compare_with(const std::vector<Holding>& copies,
                                            std::size_t reference, CopyReader& reader,
                                            Progress& progress) {
  const std::uint64_t total = copies.front().entry->content_bytes;
  const auto block = static_cast<std::size_t>(std::min(kReplicaBlockBytes, total));
  std::vector<std::byte> left(block);
  std::vector<std::byte> right(copies.size() > 1 ? block : 0);
  std::vector<ReplicaDifference> tallies(copies.size());
  for (std::uint64_t offset = 0; offset < total; offset += block) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(block, total - offset));
    const auto expected = std::span(left).first(part);
    read_copy(copies, reference, offset, expected, reader);
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (i == reference) continue;
      const auto found = std::span(right).first(part);
      read_copy(copies, i, offset, found, reader);
      tally(expected, found, offset, tallies[i]);
    }
    progress.add_bytes(part * copies.size());
  }
  std::vector<ReplicaDifference> out;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (tallies[i].bytes == 0) continue;
    tallies[i].holding = copies[i];
    tallies[i].reference = copies[reference];
    out.push_back(tallies[i]);
  }
  return out;
}

/// Where most copies differ from the first, it is more likely the wrong one.
std::vector<ReplicaDifference> compare_all(const std::vector<Holding>& copies, CopyReader& reader,
                                           Progress& progress) {
  std::vector<ReplicaDifference> first = compare_with(copies, 0, reader, progress);
  if (copies.size() < 3 || first.size() * 2 < copies.size()) return first;
  const auto other = std::find_if(copies.begin(), copies.end(), [&](const Holding& copy) {
    return copy.file == first.front().holding.file;
  });
  auto second =
      compare_with(copies, static_cast<std::size_t>(other - copies.begin()), reader, progress);
  return second.size() < first.size() ? second : first;
}

}  // namespace

/// @return false: the copy is to be read by itself.
bool CopyReader::read_near(const Holding& copy, std::span<std::byte> out) {
  constexpr std::size_t kSmall = 16 << 10;
  constexpr std::uint64_t kBlockBytes = 64 << 10;
  constexpr std::uint64_t kNear = 4 << 10;
  constexpr std::size_t kMostFiles = 64;
  const TensorEntry& entry = *copy.entry;
  const ByteSource& source = *copy.file->source;
  const bool is_whole = out.size() == entry.content_bytes && entry.extents.size() == 1 &&
                        entry.encoding == ContentEncoding::kPlain;
  if (!is_whole || out.size() > kSmall || source.is_far()) return false;
  if (blocks_.size() == kMostFiles && !blocks_.contains(copy.file)) return false;
  Block& block = blocks_[copy.file];
  const ByteRange place = entry.extents.front();
  const std::uint64_t last_end = std::exchange(block.next, place.end());
  if (place.offset() < block.begin || place.end() - block.begin > block.bytes.size()) {
    const bool follows = last_end != 0 && place.offset() >= last_end &&
                         place.offset() - last_end <= kNear && place.end() <= source.size();
    if (!follows) return false;
    block.begin = place.offset();
    block.bytes.resize(
        static_cast<std::size_t>(std::min(kBlockBytes, source.size() - place.offset())));
    try {
      source.read_at(block.begin, block.bytes);
      source.check_unchanged();
    } catch (const Error&) {
      block.bytes.clear();  // what lies behind the copy may be at fault
      return false;
    }
  }
  const auto from = block.bytes.begin() + static_cast<std::ptrdiff_t>(place.offset() - block.begin);
  std::copy_n(from, out.size(), out.begin());
  return true;
}

void CopyReader::read(const Holding& copy, std::uint64_t offset, std::span<std::byte> out) {
  if (offset == 0 && read_near(copy, out)) return;
  ReadBatch batch;
  read_content(copy, offset, out, batch);
  batch.check();
}

ReplicaReport compare_replicas(std::vector<Holding> holdings, CopyReader& reader,
                               Progress& progress) {
  ReplicaReport report;
  while (!holdings.empty()) {
    try {
      report.differences = compare_all(holdings, reader, progress);
      break;
    } catch (const ReadFailure& failure) {
      report.unreadable.emplace_back(holdings[failure.copy], failure.error);
      holdings.erase(holdings.begin() + static_cast<std::ptrdiff_t>(failure.copy));
    }
  }
  return report;
}

std::uint64_t file_offset(const TensorEntry& entry, std::uint64_t position) {
  std::uint64_t stored = position;
  if (entry.encoding == ContentEncoding::kFloat32AsBFloat16) {
    stored = position / 2 * 4 + 2 + position % 2;
  }
  for (const ByteRange& extent : entry.extents) {
    if (stored < extent.length()) return extent.offset() + stored;
    stored -= extent.length();
  }
  return entry.extents.empty() ? 0 : entry.extents.back().end();
}

}  // namespace reshardfs
