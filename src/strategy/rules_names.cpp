// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules_names.h"

#include <algorithm>

#include "reshardfs/error.h"

namespace reshardfs {

std::string name_list(const std::vector<std::string>& names, std::size_t shown) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i) {
    if (i > 0) text += ", ";
    text += "'" + printable(names[i]) + "'";
  }
  if (names.size() > shown) text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

std::string counted(std::size_t count, const std::string& singular) {
  return std::to_string(count) + " " + singular + (count == 1 ? "" : "s");
}

}  // namespace reshardfs
