// SPDX-License-Identifier: Apache-2.0
/// What a program says to a command by values in place of words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/engine.h"
#include "cli/words/given.h"

namespace reshardfs {

struct OptionValue {
  std::string name;  ///< long, with '_' or '-'
  /// Of a list, its items. Nothing: the option is given without a value.
  std::optional<std::vector<std::string>> texts{};
  bool is_number = false;
};

/// A number as a size is one of bytes. A list gives an option that may be repeated several times,
/// and is one text with commas for any other.
/// Values are taken as they stand: see check_given().
/// @throws Error kUsage for options that there are not, and options without a value.
RESHARDFS_ENGINE Given given_values(const Command& command, std::vector<std::string> arguments,
                                    const std::vector<OptionValue>& values);

}  // namespace reshardfs
