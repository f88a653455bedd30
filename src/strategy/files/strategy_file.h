// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "reshardfs/strategy.h"

#include "storage/source_tree.h"
#include "strategy/files/raw_strategy.h"

namespace reshardfs {

/// Whether a strategy file of this name is JSON; all others are protobuf.
bool is_json_name(const std::filesystem::path& path);

/// The manifest of an export has the strategy of its ranks: a line with this member, whose text is
/// MindSpore's JSON.
inline constexpr const char* kManifestStrategyKey = "strategy";
bool is_manifest_name(const std::filesystem::path& path);

/// Parses the content of a strategy file; its kind is told by its name.
/// @throws Error kBadInput, naming the file; a file without layouts is refused.
RawStrategy parse_strategy_file(const std::filesystem::path& path, const std::string& bytes);

/// The strategy that a file alone states: merged, or of one stage.
/// @throws Error kBadInput, naming the file.
Strategy strategy_of_file(const std::filesystem::path& path, RawStrategy raw);

/// Strategy::load() of a file or directory in a tree.
Strategy load_strategy(const std::filesystem::path& path, const SourceTreePtr& tree);

/// The stage of an unmerged file with operators: that of the first one.
/// @throws Error kBadInput if that is no stage.
std::int64_t stage_of_operators(const RawStrategy& raw);

/// The size of to_json(), without the text of a million parameters.
/// @throws Error as to_json().
std::uint64_t json_bytes(const Strategy& strategy);

/// The size of to_protobuf(), likewise.
/// @throws Error as to_protobuf().
std::uint64_t protobuf_bytes(const Strategy& strategy);

}  // namespace reshardfs
