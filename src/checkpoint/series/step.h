// SPDX-License-Identifier: Apache-2.0
/// A step's name comes from the file name: "<epoch>_<step>" or one number; empty if the file name
/// has none. Names are compared as numbers.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

/// Accepted in place of a step's name: the newest complete step.
inline constexpr std::string_view kLatestStep = "latest";
/// Accepted by mounts in place of a step's name: all steps.
inline constexpr std::string_view kAllSteps = "all";
/// Why everything else refuses kAllSteps.
inline constexpr const char* kAllStepsRefused =
    "'--step all' is for 'reshardfs mount' alone: here one step counts";

/// "9_50" for "llama-9_50.ckpt", empty if the name does not end like that.
std::string step_in_file_name(std::string_view file_name);

/// The length of the step name (digits, or digits_digits) with which `text` begins; 0: none.
std::size_t step_prefix_length(std::string_view text) noexcept;

/// By epoch, then by step; no step is older than any. Both are step names.
std::strong_ordering compare_steps(std::string_view a, std::string_view b) noexcept;

/// "step 9_50", "no step"
std::string step_words(const std::string& step);

/// "9_50, 10_50"; long lists are cut: the newest stay.
/// @param steps oldest first.
std::string join_steps(const std::vector<std::string>& steps);

/// The order of std::map and std::set: oldest first.
struct OlderStep {
  bool operator()(std::string_view a, std::string_view b) const noexcept {
    return std::is_lt(compare_steps(a, b));
  }
};

}  // namespace reshardfs
