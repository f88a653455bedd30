// SPDX-License-Identifier: Apache-2.0
#include "base/glob.h"

#include <fnmatch.h>

#include <algorithm>

namespace reshardfs {

bool glob_match(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

bool NameFilter::takes(const std::string& name) const {
  const auto matches = [&](const std::string& pattern) { return glob_match(pattern, name); };
  const bool included = include.empty() || std::any_of(include.begin(), include.end(), matches);
  return included && std::none_of(exclude.begin(), exclude.end(), matches);
}

}  // namespace reshardfs
