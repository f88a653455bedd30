// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace reshardfs {

/// Whether `text` matches a shell pattern of `*`, `?` and `[...]`. `*` matches '.' and '/' too:
/// these are parameter names, not paths.
bool glob_match(const std::string& pattern, const std::string& text);

using NameGlobs = std::vector<std::string>;

/// The pattern that only this text matches.
std::string glob_of(const std::string& text);

/// Whether `name` matches any of the globs.
bool matches_any(const NameGlobs& globs, const std::string& name);

/// The `--include`/`--exclude` rule: taken if it matches an include pattern (or there is none) and
/// no exclude pattern. With weights_only, what training keeps beside the weights is left out, too.
struct NameFilter {
  NameGlobs include{};
  NameGlobs exclude{};
  bool weights_only = false;
  std::vector<std::string> state_prefixes{};  ///< see is_training_state()

  bool takes(const std::string& name) const;
};

}  // namespace reshardfs
