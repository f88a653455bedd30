// SPDX-License-Identifier: Apache-2.0
#include "layout/axis_partition.h"

#include <algorithm>
#include <string>

#include "base/checked.h"

namespace reshardfs {

AxisPartition AxisPartition::even(std::int64_t size, std::int64_t parts) {
  if (parts < 1 || size < 0 || size % parts != 0) {
    throw Error(ErrorKind::kBadInput, std::to_string(size) + " rows cannot be cut into " +
                                          std::to_string(parts) + " equal parts");
  }
  AxisPartition partition;
  partition.size_ = size;
  partition.parts_ = parts;
  return partition;
}

AxisPartition AxisPartition::of_lengths(const std::vector<std::int64_t>& lengths) {
  AxisPartition partition;
  partition.parts_ = static_cast<std::int64_t>(lengths.size());
  partition.lengths_ = lengths;
  for (std::size_t part = 0; part < lengths.size(); ++part) {
    if (lengths[part] < 0) {
      throw Error(ErrorKind::kBadInput,
                  "the length " + std::to_string(lengths[part]) + " of a part is negative");
    }
    const std::int64_t end =
        add_or_throw(partition.size_, lengths[part], "the sum of the parts' lengths");
    if (end > partition.size_) {
      partition.intervals_.push_back({partition.size_, end, static_cast<std::int64_t>(part), 0});
    }
    partition.size_ = end;
  }
  return partition;
}

AxisPartition AxisPartition::by_field(std::int64_t size, std::int64_t fields, std::int64_t parts) {
  AxisPartition partition = even(size, parts);
  const std::int64_t rows =
      even(size, mul_or_throw(fields, parts, "fields times parts")).size_ / (fields * parts);
  // An interval for each field and part must fit in memory; no model has more.
  if (fields * parts > (1 << 22)) {
    throw Error(ErrorKind::kBadInput, std::to_string(fields) + " fields are too many");
  }
  partition.lengths_.assign(static_cast<std::size_t>(parts), size / parts);
  for (std::int64_t i = 0; i < fields * parts && rows > 0; ++i) {
    partition.intervals_.push_back({i * rows, (i + 1) * rows, i % parts, i / parts * rows});
  }
  return partition;
}

std::int64_t AxisPartition::part_length(std::int64_t part) const {
  return lengths_.empty() ? size_ / parts_ : lengths_.at(static_cast<std::size_t>(part));
}

AxisInterval AxisPartition::locate(std::int64_t position) const {
  if (lengths_.empty()) {
    const std::int64_t length = size_ / parts_;
    const std::int64_t part = position / length;
    return {part * length, (part + 1) * length, part, 0};
  }
  const auto after =
      std::upper_bound(intervals_.begin(), intervals_.end(), position,
                       [](std::int64_t p, const AxisInterval& i) { return p < i.begin; });
  return *(after - 1);
}

std::vector<AxisInterval> AxisPartition::intervals_of(std::int64_t part) const {
  std::vector<AxisInterval> found;
  if (lengths_.empty()) {
    const std::int64_t length = size_ / parts_;
    if (length > 0) found.push_back({part * length, (part + 1) * length, part, 0});
    return found;
  }
  std::copy_if(intervals_.begin(), intervals_.end(), std::back_inserter(found),
               [part](const AxisInterval& i) { return i.part == part; });
  std::sort(found.begin(), found.end(), [](const AxisInterval& a, const AxisInterval& b) {
    return a.local_begin < b.local_begin;
  });
  return found;
}

std::optional<std::int64_t> AxisPartition::first_cut_group(std::int64_t factor,
                                                           std::int64_t per_group) const {
  const auto is_inside = [&](std::int64_t row) {
    return row % per_group * factor % per_group != 0;
  };
  if (lengths_.empty() || parts_ == 1) {
    const std::int64_t length = size_ / parts_;
    if (is_inside(length)) return length;
    return std::nullopt;
  }
  for (const AxisInterval& interval : intervals_) {
    if (is_inside(interval.begin) || is_inside(interval.local_begin)) return interval.begin;
    if (is_inside(interval.end)) return interval.end;
  }
  return std::nullopt;
}

std::optional<AxisPartition> AxisPartition::in_groups(std::int64_t factor,
                                                      std::int64_t per_group) const {
  if (first_cut_group(factor, per_group)) return std::nullopt;
  // One part is the whole dimension, no matter which intervals it has.
  if (parts_ == 1) return even(size_ * factor / per_group, 1);
  AxisPartition groups = *this;
  // Rows times factor are elements, which were counted when the tensor was.
  const auto convert = [&](std::int64_t& rows) { rows = rows * factor / per_group; };
  convert(groups.size_);
  for (AxisInterval& interval : groups.intervals_) {
    convert(interval.begin);
    convert(interval.end);
    convert(interval.local_begin);
  }
  for (std::int64_t& length : groups.lengths_) convert(length);
  return groups;
}

std::vector<AxisSegment> overlay(const AxisPartition& destination, std::int64_t part,
                                 const AxisPartition& source) {
  std::vector<AxisSegment> segments;
  const bool is_even = source.lengths_.empty();
  const std::int64_t even_length = is_even ? source.part_length(0) : 0;
  for (const AxisInterval& wanted : destination.intervals_of(part)) {
    std::int64_t position = wanted.begin;
    while (position < wanted.end) {
      const AxisInterval held = source.locate(position);
      const std::int64_t length = std::min(wanted.end, held.end) - position;
      const AxisSegment segment{wanted.local_begin + position - wanted.begin, length, held.part,
                                held.local_begin + position - held.begin,
                                is_even ? even_length : source.part_length(held.part)};
      // Intervals that follow each other both in the tensor and in storage read as one.
      if (!segments.empty() && segments.back().source_part == segment.source_part &&
          segments.back().source_begin + segments.back().length == segment.source_begin) {
        segments.back().length += length;
      } else {
        segments.push_back(segment);
      }
      position += length;
    }
  }
  return segments;
}

}  // namespace reshardfs
