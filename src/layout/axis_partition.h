// SPDX-License-Identifier: Apache-2.0
/// One dimension of a tensor, cut into parts.
///
/// A part is a list of intervals of the full dimension; a device that holds the part stores the
/// intervals one after the other. Even and uneven splits have one interval a part. Everything a
/// layout can say is a product of such partitions, one for each dimension, so that resharding
/// falls apart into one-dimensional overlays (overlay()).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace reshardfs {

/// [begin, end) of the full dimension, stored by `part` from its row `local_begin` on.
struct AxisInterval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t part = 0;
  std::int64_t local_begin = 0;

  bool operator==(const AxisInterval&) const = default;
};

struct AxisSegment;

class AxisPartition {
 public:
  /// `parts` parts of equal length.
  /// @throws Error kBadInput if parts < 1 or does not divide size.
  static AxisPartition even(std::int64_t size, std::int64_t parts);
  /// Parts of these lengths, one after the other.
  /// @throws Error kBadInput if a length is negative or their sum exceeds 2^63-1.
  static AxisPartition of_lengths(const std::vector<std::int64_t>& lengths);

  /// Equal parts that have rows of every field: the dimension is [fields, parts, rows], and a part
  /// stores [fields, rows].
  /// @throws Error kBadInput if fields * parts does not divide size.
  static AxisPartition by_field(std::int64_t size, std::int64_t fields, std::int64_t parts);

  std::int64_t size() const noexcept { return size_; }
  std::int64_t parts() const noexcept { return parts_; }
  /// Rows that a device with this part stores.
  std::int64_t part_length(std::int64_t part) const;
  /// The interval that holds row `position` of the full dimension, 0 <= position < size().
  AxisInterval locate(std::int64_t position) const;
  /// The non-empty intervals of one part, in the order in which they are stored.
  std::vector<AxisInterval> intervals_of(std::int64_t part) const;

  /// The same cut, counted in groups of rows: of `per_group` rows after each row was taken `factor`
  /// times. Nothing if a part begins or ends inside of a group, in the dimension or where it is
  /// stored.
  std::optional<AxisPartition> in_groups(std::int64_t factor, std::int64_t per_group) const;
  /// The first row, in the order of the dimension, at which in_groups() would cut a group; nothing
  /// if there is none.
  std::optional<std::int64_t> first_cut_group(std::int64_t factor, std::int64_t per_group) const;

  bool operator==(const AxisPartition&) const = default;

 private:
  friend std::vector<AxisSegment> overlay(const AxisPartition& destination, std::int64_t part,
                                          const AxisPartition& source);

  std::int64_t size_ = 0;
  std::int64_t parts_ = 1;
  /// Even partitions (nearly all) keep nothing else; for the others the intervals by `begin`, none
  /// empty, and the parts' lengths.
  std::vector<AxisInterval> intervals_;
  std::vector<std::int64_t> lengths_;
};

/// A stretch of a destination part that one source part stores without a gap.
struct AxisSegment {
  std::int64_t destination_begin = 0;  ///< row in the destination part
  std::int64_t length = 0;             ///< rows, at least 1
  std::int64_t source_part = 0;
  std::int64_t source_begin = 0;   ///< row in the source part
  std::int64_t source_length = 0;  ///< rows of the source part

  bool operator==(const AxisSegment&) const = default;
};

/// The one of overlay()'s segments that has row `index` of the destination part. O(log n).
inline const AxisSegment& segment_at(const std::vector<AxisSegment>& segments, std::int64_t index) {
  if (segments.size() == 1) return segments.front();
  const auto after = std::upper_bound(
      segments.begin(), segments.end(), index,
      [](std::int64_t i, const AxisSegment& s) { return i < s.destination_begin; });
  return *(after - 1);
}

/// Where the rows of one destination part come from: segments that cover it in order without gap
/// or overlap. Both partitions are of the same dimension (equal sizes).
std::vector<AxisSegment> overlay(const AxisPartition& destination, std::int64_t part,
                                 const AxisPartition& source);

}  // namespace reshardfs
