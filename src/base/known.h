// SPDX-License-Identifier: Apache-2.0
/// A value and its origin. A value that is neither stated nor proven is unknown, with a reason;
/// there is no default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace reshardfs {

enum class KnownBy : std::uint8_t {
  kNone,     ///< the value is unknown
  kStated,   ///< by an option, a strategy, the checkpoint, a configuration
  kDerived,  ///< from shapes or names of tensors
};

template <typename T>
class Known {
 public:
  /// Unknown, for no reason that could be told.
  Known() = default;

  /// @param origin what states it: "--map-var tp=2", "run.yaml:12: use_flash".
  static Known stated(T value, std::string origin) {
    return {KnownBy::kStated, std::move(value), std::move(origin)};
  }
  /// @param origin what proves it, with the tensor: "the shape of 'model.norm.weight'".
  static Known derived(T value, std::string origin) {
    return {KnownBy::kDerived, std::move(value), std::move(origin)};
  }
  /// @param why nothing tells the value.
  static Known unknown(std::string why) { return {KnownBy::kNone, std::nullopt, std::move(why)}; }

  bool has_value() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  /// Only of a value that is known.
  const T& operator*() const { return *value_; }

  KnownBy by() const noexcept { return by_; }
  /// Where the value comes from, or why there is none.
  const std::string& origin() const noexcept { return origin_; }

 private:
  Known(KnownBy by, std::optional<T> value, std::string origin)
      : by_(by), value_(std::move(value)), origin_(std::move(origin)) {}

  KnownBy by_ = KnownBy::kNone;
  std::optional<T> value_{};
  std::string origin_{};
};

}  // namespace reshardfs
