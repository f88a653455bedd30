// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/glob.h"

namespace reshardfs {

/// The options of a command that select nothing of the checkpoint that it reads.
class UnmatchedOptions {
 public:
  /// @param line one sentence without a full stop: the option, its text, and what was meant
  /// instead.
  void add(std::string line);
  /// Adds each glob that matches none of the names, with the nearest glob that does.
  /// @param noun "parameter", or what else the names are of.
  void add_globs(std::string_view option, const NameGlobs& globs,
                 const std::vector<std::string>& names, std::string_view noun = "parameter");
  /// The same of texts that stand at the beginning of names.
  void add_prefixes(std::string_view option, const std::vector<std::string>& prefixes,
                    const std::vector<std::string>& names);

  bool empty() const noexcept { return lines_.empty(); }
  const std::vector<std::string>& lines() const noexcept { return lines_; }

  /// What the user is told: as warnings if they are allowed.
  /// @throws Error kUsage with all lines, if there are any and they are not allowed.
  void settle(bool allowed, std::vector<std::string>& warnings) const;

 private:
  std::vector<std::string> lines_;
};

/// "; did you mean --exclude 'model.*'? It matches 'model.embed.weight'" for a glob that matches
/// none of the names, or which name is nearest to it; empty if there are no names.
/// @param text the option's text with another glob, where a glob is not all of it.
std::string near_glob_words(std::string_view option, const std::string& glob,
                            const std::vector<std::string>& names,
                            const std::function<std::string(const std::string& glob)>& text = {});

}  // namespace reshardfs
