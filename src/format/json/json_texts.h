// SPDX-License-Identifier: Apache-2.0
/// JSON objects whose values are texts, {"name": "text", ...}: maps of names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reshardfs {

/// More than any model has parameters; a hostile file of tiny members must not fill the memory.
inline constexpr std::size_t kMaxJsonTexts = 2'000'000;

/// The members in the order of the file. Keeps nothing else of it, however large it is.
/// @param inner if the object has a member of this name, which must be an object, the members of
///        that object are read, and all others are skipped. Empty: no such member.
/// @throws Error kBadInput without the file: no JSON, no object, a value that is no text, a name
///         that stands twice (of which other readers would take the last), too many members; with
///         the name as parameter where there is one.
std::vector<std::pair<std::string, std::string>> read_json_texts(const std::string& json,
                                                                 std::string_view inner = {});

}  // namespace reshardfs
