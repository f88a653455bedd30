// SPDX-License-Identifier: Apache-2.0
/// Checks of option values that can be read, but are surely not meant.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace reshardfs {

/// Refuses a size of few bytes without a unit: who writes 5 means 5GB. To be added as a transform
/// after CLI::AsSizeValue, before which it runs. Throws Error kUsage.
CLI::Validator size_with_unit(const std::string& option);

/// Refuses what a shell leaves of fp32->bf16 without quotes: fp32-, with standard output in a file
/// bf16. Throws Error kUsage.
CLI::Validator cast_with_quotes();

/// @throws Error kUsage if a text says sizes of a target without '=': tp4, or tp:4,dp:2.
void refuse_sizes_without_equals(const std::string& text);

}  // namespace reshardfs
