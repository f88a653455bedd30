// SPDX-License-Identifier: Apache-2.0
/// What to type next. Pure: what is true of the checkpoint is found out before.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/words/given.h"
#include "report/text/set_description.h"

namespace reshardfs {

/// Of the options that were given, those by which another command takes the same of the same
/// source, as words; without those that say what is printed, and how.
std::vector<std::string> carried_options(const Given& given, const std::string& command);

struct NextFacts {
  std::string source{};  ///< as the user names it; empty: no command is to show it
  /// A mount can show it: nothing that it needs is missing.
  bool can_mount = false;
  bool needs_partial = false;  ///< a conversion shows it with --partial alone
  /// What `verify` checks is all stated, so that a whole checkpoint passes.
  bool can_verify = false;
  bool can_guess = false;                 ///< `strategy guess` reads it
  std::vector<std::string> strategies{};  ///< to choose from; one: it is the only one that fits
  std::string sizes{};                    ///< that prove how slices lie: "tp=4"
  std::vector<std::string> state_keys{};  ///< below which the model's parameters usually are
  bool can_dequantize = false;            ///< weights have the scales of their blocks
  std::string map{};         ///< an installed map that takes it; empty: none is known to
  bool shows_hf = false;     ///< a mount without more options has hf/
  std::string hf_needs{};    ///< the options that add it; empty: none is known to
  std::string mountpoint{};  ///< need not exist
  std::string directory{};   ///< that `export` may make
  std::string rules{};       ///< a file that `strategy guess` may write
  /// The options of the command line that another command takes, too, as words.
  std::function<std::vector<std::string>(const std::string& command)> options{};
};

/// A few lines for a shell, the most useful first.
std::vector<NextCommand> next_commands(const NextFacts& facts);

}  // namespace reshardfs
