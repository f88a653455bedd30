// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_layout.h"

#include <algorithm>

#include "reshardfs/error.h"

#include "base/checked.h"

namespace reshardfs {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t multiple) {
  return add_or_throw(value, multiple - 1, "a group's length") / multiple * multiple;
}

}  // namespace

ZeroPartition zero_partition(const std::vector<ZeroShape>& parameters,
                             const std::vector<std::int64_t>& lengths,
                             const ZeroPaddings& paddings) {
  ZeroPartition out;
  if (!paddings.alignments.empty() && paddings.alignments.size() != parameters.size()) {
    throw Error(ErrorKind::kBadInput,
                "it has param_alignment_paddings of " + std::to_string(paddings.alignments.size()) +
                    " parameters, but " + std::to_string(parameters.size()) + " names");
  }
  std::int64_t needed = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    out.starts.push_back(needed);
    needed = add_or_throw(needed, element_count(parameters[i].shape), "a group's length");
    if (!paddings.alignments.empty()) {
      needed = add_or_throw(needed, paddings.alignments[i], "a group's length");
    }
  }
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) {
    out.parts.push_back(total);
    total = add_or_throw(total, length, "a group's length");
  }
  out.parts.push_back(total);
  // Each rank has as much as the first one, as long as there is something left.
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    const std::int64_t expected = std::min(lengths.front(), total - out.parts[rank]);
    if (lengths[rank] == expected) continue;
    throw Error(ErrorKind::kBadInput,
                "rank " + std::to_string(rank) + " has " + std::to_string(lengths[rank]) +
                    " elements of the group, but rank 0 has " + std::to_string(lengths.front()));
  }
  const auto ranks = static_cast<std::int64_t>(lengths.size());
  if (paddings.end) {
    // The part of the last rank is without the padding, as far as it has any; or all parts have it.
    const std::int64_t padded = add_or_throw(needed, *paddings.end, "a group's length");
    const std::int64_t on_others = std::max<std::int64_t>(0, *paddings.end - lengths.front());
    const bool fits = total == needed || total == padded || total == needed + on_others;
    if (fits && padded % (2 * ranks) == 0) return out;
    throw Error(ErrorKind::kBadInput, "its parameters have " + std::to_string(needed) +
                                          " elements, but the ranks have " + std::to_string(total) +
                                          ", and " + std::to_string(*paddings.end) + " of padding");
  }
  if (total < needed || rounded_up(total, 2 * ranks) != rounded_up(needed, 2 * ranks)) {
    throw Error(ErrorKind::kBadInput, "its parameters have " + std::to_string(needed) +
                                          " elements, but the ranks have " + std::to_string(total));
  }
  return out;
}

bool is_end_of_group(const std::vector<std::int64_t>& lengths,
                     const std::vector<std::int64_t>& paddings, std::size_t rank) {
  const std::int64_t part = add_or_throw(lengths.front(), paddings.front(), "a group's length");
  if (lengths[rank] > part || paddings[rank] != part - lengths[rank]) return false;
  for (std::size_t i = rank + 1; i < lengths.size(); ++i) {
    if (lengths[i] != 0 || paddings[i] != part) return false;
  }
  return true;
}

ZeroFragment zero_fragment(const ZeroPartition& partition, std::size_t parameter,
                           std::int64_t count, std::size_t rank) {
  const std::int64_t begin = std::max(partition.starts[parameter], partition.parts[rank]);
  const std::int64_t end = std::min(partition.starts[parameter] + count, partition.parts[rank + 1]);
  if (begin >= end) return {};
  return {end - begin, begin - partition.parts[rank]};
}

ZeroPieces zero_pieces(const std::vector<ZeroShape>& parameters, std::int64_t ranks) {
  ZeroPieces out;
  for (const ZeroShape& parameter : parameters) {
    const std::int64_t length = rounded_up(element_count(parameter.shape), ranks) / ranks;
    out.lengths.push_back(length);
    out.starts.push_back(out.total);
    out.total = add_or_throw(out.total, length, "a rank's length");
  }
  return out;
}

}  // namespace reshardfs
