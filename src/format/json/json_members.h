// SPDX-License-Identifier: Apache-2.0
/// Large JSON files whose objects have many small members, and maps of names: objects whose values
/// are texts, {"name": "text", ...}.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json_value.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// What one member may have; it is held in memory.
inline constexpr std::size_t kMaxMemberValues = 4'000'000;
inline constexpr std::size_t kMaxMemberTextBytes = 128 << 20;
/// As many keys as an object in a member may have.
inline constexpr std::size_t kMaxMemberKeys = 64;
/// As many lists and objects may be inside each other.
inline constexpr std::size_t kMaxMemberDepth = 64;

/// Takes a member of one of the objects.
using TakeMember =
    std::function<void(std::string_view object, std::string_view name, const JsonValue& value)>;

/// Reads a file that holds one object, as a stream: of those of its members that are named in
/// `objects`, which must be there and be objects, each member goes to `take`, in the order of the
/// file. One is held at a time.
/// @param unneeded keys inside such members whose values are skipped, and become null.
/// @throws Error kBadInput without the file: no JSON, an object that is missing, none, or stands
///         twice, or a limit of those above is exceeded; with the member as parameter where it is
///         in one: a key in it stands twice, or another of those limits; what `source` and `take`
///         throw. Whether the members' own names stand twice is to be found out by `take`.
void read_json_members(const ByteSource& source, std::span<const std::string_view> objects,
                       std::span<const std::string_view> unneeded, const TakeMember& take);

/// More than any model has parameters; a hostile file of tiny members must not fill the memory.
inline constexpr std::size_t kMaxJsonTexts = 2'000'000;

/// Members whose names and values stand in a text as they are, as nearly all do: a million of them
/// need no memory of their own.
struct JsonTexts {
  std::unique_ptr<const std::string> json;
  std::deque<std::string> unescaped;  ///< what is written with escapes
  std::vector<std::pair<std::string_view, std::string_view>> members;
  std::string beside;  ///< an object that has what was to be kept beside them
};

/// The members in the order of the file.
/// @param beside names a member of the outer object that is kept if it is an object; empty: none.
/// @param inner if the object has a member of this name, which must be an object, the members of
///        that object are read, and all others are skipped. Empty: no such member.
/// @throws Error kBadInput without the file: no JSON, no object, a value that is no text, a name
///         that stands twice (of which other readers would take the last), too many members; with
///         the name as parameter where there is one.
JsonTexts read_json_texts(std::string json, std::string_view inner = {},
                          std::string_view beside = {});

}  // namespace reshardfs
