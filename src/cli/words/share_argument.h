// SPDX-License-Identifier: Apache-2.0
/// --share: which part of an export this process takes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "export/share.h"

namespace reshardfs {

/// The value of an environment variable, or nullptr.
using Variables = std::function<const char*(const char* name)>;

struct ChosenShare {
  Share share{};
  /// The variable that told; empty if the command line did.
  std::string from{};
};

/// @param text "3/16", counted from 0; or "auto": what the variables of Slurm or MPI say.
/// @throws Error kUsage if the text is neither, or the variables do not tell.
ChosenShare choose_share(const std::string& text, const Variables& variables);

/// "ranks 12-15 and 2 other files, 3.1 GiB", for messages.
std::string share_words(const std::vector<const OutputFile*>& files);

}  // namespace reshardfs
