// SPDX-License-Identifier: Apache-2.0
/// Arithmetic on numbers that come from files. Nothing read from a file is added or multiplied
/// without these.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

#include "reshardfs/error.h"

namespace reshardfs {

template <std::integral T>
std::optional<T> checked_add(T a, T b) noexcept {
  T result{};
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

template <std::integral T>
std::optional<T> checked_mul(T a, T b) noexcept {
  T result{};
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// Of a number that is known not to be negative.
constexpr std::uint64_t unsigned_of(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value);
}

/// a + b, or Error kBadInput naming what would have been computed.
template <std::integral T>
T add_or_throw(T a, T b, const char* what) {
  if (auto result = checked_add(a, b)) return *result;
  throw Error(ErrorKind::kBadInput, std::string(what) + " exceeds the range of 64-bit numbers");
}

/// a * b, or Error kBadInput naming what would have been computed.
template <std::integral T>
T mul_or_throw(T a, T b, const char* what) {
  if (auto result = checked_mul(a, b)) return *result;
  throw Error(ErrorKind::kBadInput, std::string(what) + " exceeds the range of 64-bit numbers");
}

}  // namespace reshardfs
