// SPDX-License-Identifier: Apache-2.0
/// What single options take, beyond words, ranges and units. Each says what is wrong, in words that
/// follow the option's name.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/options/option.h"

namespace reshardfs {

/// A number, or the name of a user of this machine. The highest number means "none" to the system,
/// and is none here.
std::optional<std::uint32_t> user_number(const std::string& text);
std::optional<std::uint32_t> group_number(const std::string& text);
/// "0440"; at most 0777.
std::optional<mode_t> octal_mode(const std::string& text);

std::string check_user(const std::string& text);
std::string check_group(const std::string& text);
std::string check_mode(const std::string& text);
/// A path that does not lead out of a mount: rank_3, but not /rank_3 or ../other.
std::string check_path_in_mount(const std::string& text);
std::string check_rank(const std::string& text);
/// What duration_of() takes.
std::string check_duration(const std::string& text);
/// Refuses what a shell leaves of fp32->bf16 without quotes: fp32-, with standard output in a file
/// bf16. Throws Error kUsage.
std::string check_cast_quotes(const std::string& text);

/// Bytes: "500MB", "5 GiB", "5B", "0". Letters may be small.
/// @throws Error kUsage, naming the option, also for a few bytes without a unit: who writes 5 means
/// 5GB.
std::uint64_t size_in_bytes(const Option& option, const std::string& text);

/// "90s", "10m", "1h30m", "2d"; at most a year. A number alone is none: it could be minutes.
std::optional<std::chrono::seconds> duration_of(std::string_view text);

/// true, 1, yes and on, or their opposites; nothing for any other text.
std::optional<bool> flag_value(const std::string& text);

/// Choices, range, unit and check. @throws Error kUsage, naming the option.
/// @param see_help where else to look.
void check_value(const Option& option, const std::string& text, const std::string& see_help);

/// @throws Error kUsage if a text says sizes of a target without '=': tp4, or tp:4,dp:2.
void refuse_sizes_without_equals(const std::string& option, const std::string& text);

}  // namespace reshardfs
