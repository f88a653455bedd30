// SPDX-License-Identifier: Apache-2.0
/// A command line as text again, for messages that correct it.
#pragma once

#include <string>

#include "cli/words/given.h"

namespace reshardfs {

/// Ready for a shell, with options by their long names: "reshardfs mount ckpt mnt --step 3_100".
/// The mount point of `mount` is made before, if it is not there.
std::string command_text(const Given& given);

/// The same with arguments and options that are required and missing: a free name for each file or
/// directory to write. Empty if one is missing that nothing can be proposed for.
std::string completed_text(const Given& given);

/// Empty, too, for an option that the command does not have.
std::string option_text(const Given& given, const std::string& name);

/// The option's last value replaced, or the option added.
/// @param name of an option that the command has.
Given with_option(Given given, const std::string& name, const std::string& text);

}  // namespace reshardfs
