// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/engine.h"

namespace reshardfs {

/// Whether the whole of `text` matches a pattern, in any locale. Both are UTF-8; each byte that is
/// none counts as a character of its own. Takes time in the product of both sizes at most.
/// - `*` is any text, and `?` any character. Both match '.' and '/' too: these are names, no paths.
/// - `[...]` is one of a set: characters, ranges such as `a-z` by their numbers in Unicode, and
///   POSIX's classes such as `[:digit:]`, which have ASCII characters alone. After `[!` or `[^`, it
///   is one of all others. A ']' that comes first is in the set. Without an end, '[' is itself, and
///   so is each behind it.
/// - A backslash makes the next character match itself, also in a set. At the end, nothing matches.
bool glob_match(std::string_view pattern, std::string_view text) noexcept;

/// Behind the set that begins with the '[' at `at`; `at` if it has no end.
std::size_t glob_set_end(std::string_view pattern, std::size_t at) noexcept;

using NameGlobs = std::vector<std::string>;

/// The pattern that only this text matches.
std::string glob_of(std::string_view text);

/// Whether `name` matches any of the globs.
RESHARDFS_ENGINE bool matches_any(const NameGlobs& globs, const std::string& name);

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
