// SPDX-License-Identifier: Apache-2.0
/// Large JSON files whose objects have many small members.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "storage/byte_source.h"

namespace reshardfs {

/// As many values as one member may have; it is held in memory.
inline constexpr std::size_t kMaxMemberValues = 4'000'000;

/// Takes a member of one of the objects.
using TakeMember =
    std::function<void(std::string_view object, std::string name, const nlohmann::json& value)>;

/// Reads a file that holds one object, as a stream: of those of its members that are named in
/// `objects`, which must be there and be objects, each member goes to `take`, in the order of the
/// file. One is held at a time.
/// @param unneeded keys inside of such members whose values are passed over, whatever they are.
/// @throws Error kBadInput without the file: no JSON, an object that is missing, none, or stands
///         twice; with the member as parameter: a key in it stands twice, or it has more than
///         kMaxMemberValues values; what `source` and `take` throw. Whether the members' own names
///         stand twice is to be found out by `take`.
void read_json_members(const ByteSource& source, std::span<const std::string_view> objects,
                       std::span<const std::string_view> unneeded, const TakeMember& take);

}  // namespace reshardfs
