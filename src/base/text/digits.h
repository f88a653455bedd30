// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reshardfs {

/// Whether it is an ASCII digit, independent of the locale.
constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

}  // namespace reshardfs
