// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reshardfs {

/// An ASCII digit, whatever the locale says.
constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

}  // namespace reshardfs
