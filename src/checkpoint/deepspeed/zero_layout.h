// SPDX-License-Identifier: Apache-2.0
/// Where DeepSpeed's ZeRO puts parameters: the arithmetic alone. Lengths and places are in
/// elements. Source of the rules: deepspeed/utils/zero_to_fp32.py, August 2026.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/zero_states.h"

namespace reshardfs {

/// Stages 1 and 2, one group: its parameters lie back to back in a vector, which is cut into as
/// many equal parts as there are ranks. The end is padded, or the parts of the last ranks are
/// shorter.
struct ZeroPartition {
  std::vector<std::int64_t> starts;  ///< of the parameters, in the vector
  std::vector<std::int64_t> parts;   ///< where each rank's part begins; and the end of the last one
};

/// What files state of such a vector beside the lengths.
struct ZeroPaddings {
  std::vector<std::int64_t> alignments{};  ///< behind each parameter; empty: none
  /// Behind the last element, of all ranks together, if that is stated: then the lengths are exact.
  std::optional<std::int64_t> end{};
};

/// @param lengths of the ranks' parts, in the order of the ranks.
/// @throws Error kBadInput if they are no parts of such a vector.
ZeroPartition zero_partition(const std::vector<ZeroShape>& parameters,
                             const std::vector<std::int64_t>& lengths,
                             const ZeroPaddings& paddings = {});

/// Whether a group ends in this rank's part, which has padding, and the ranks behind it have
/// padding alone: a group may have fewer elements than its padding. Each rank states its own.
/// @param lengths of the ranks' parts, without padding.
bool is_end_of_group(const std::vector<std::int64_t>& lengths,
                     const std::vector<std::int64_t>& paddings, std::size_t rank);

/// The part of a parameter that a rank has; count is 0 if it has none.
ZeroFragment zero_fragment(const ZeroPartition& partition, std::size_t parameter,
                           std::int64_t count, std::size_t rank);

/// Stage 3: each parameter is cut into as many parts as there are ranks, of equal length but padded
/// at the end of the last one. Every rank has its parts back to back.
struct ZeroPieces {
  std::vector<std::int64_t> lengths;  ///< of a rank's part of each parameter
  std::vector<std::int64_t> starts;   ///< of the parts, the same for every rank
  std::int64_t total = 0;             ///< elements of each rank
};

ZeroPieces zero_pieces(const std::vector<ZeroShape>& parameters, std::int64_t ranks);

}  // namespace reshardfs
