// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace reshardfs {

/// One line for what CLI11 found wrong, with what to write instead or the help that tells.
/// @param app as far as it was parsed.
std::string usage_answer(const CLI::App& app, const CLI::ParseError& error);

}  // namespace reshardfs
