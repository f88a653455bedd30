// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace reshardfs {

/// Without blanks and ends of lines around it.
inline std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

}  // namespace reshardfs
