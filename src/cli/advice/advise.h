// SPDX-License-Identifier: Apache-2.0
/// Turns a refusal into the command to type next.
#pragma once

#include "reshardfs/error.h"

#include "cli/words/given.h"

namespace reshardfs {

/// The error with what the user most likely meant as its hint, as a command that is ready to paste:
/// "...; run: reshardfs mount ckpt mnt --src-strategy strategy.ckpt". Looks at paths near those
/// that were named. The error itself where nothing better is known, where another program reads the
/// messages, and where options come from a file.
Error advised(const Error& error, const Given& given);

}  // namespace reshardfs
