// SPDX-License-Identifier: Apache-2.0
/// The keys of storage_data in a metadata.json of MindSpore Transformers: Python's repr() of a
/// parameter's name and the place of a slice, "('decoder.weight', (3,))".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

struct ShardId {
  std::string name;                    ///< of the parameter; not empty
  std::vector<std::uint64_t> numbers;  ///< at least one; MindSpore Transformers writes one
  bool operator==(const ShardId&) const = default;
};

/// Nothing if the text is not what Python writes. Is never evaluated, and takes no more time for
/// text that is hostile.
std::optional<ShardId> parse_shard_id(std::string_view text);

/// What stands before and behind the number: "('decoder.weight', (" and ",))".
/// @param name UTF-8.
std::string shard_id_head(std::string_view name);
inline constexpr std::string_view kShardIdTail = ",))";

}  // namespace reshardfs
