// SPDX-License-Identifier: Apache-2.0
#include "base/text/glob.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/text/state_names.h"

namespace reshardfs {

bool glob_match(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

std::string glob_of(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

bool matches_any(const NameGlobs& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return glob_match(glob, name); });
}

bool NameFilter::takes(const std::string& name) const {
  if (weights_only && is_training_state(name, state_prefixes)) return false;
  return (include.empty() || matches_any(include, name)) && !matches_any(exclude, name);
}

}  // namespace reshardfs
