// SPDX-License-Identifier: Apache-2.0
/// CBOR (RFC 8949), as far as processes of one mount tell each other: whole numbers, booleans,
/// bytes, texts, lists, and maps with texts as keys, each with its size at the beginning. Nothing
/// is needed to destroy a value, so that a process without memory can refuse one.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

// --- values as their bytes -----------------------------------------------------------------------

std::string cbor_unsigned(std::uint64_t number);
std::string cbor_signed(std::int64_t number);
template <std::integral Number>
std::string cbor_number(Number number) {
  if constexpr (std::signed_integral<Number>) return cbor_signed(number);
  return cbor_unsigned(static_cast<std::uint64_t>(number));
}
std::string cbor_boolean(bool value);
std::string cbor_text(std::string_view text);
/// Bytes that need not be a text.
std::string cbor_bytes(std::string_view bytes);
/// What a list of so many values begins with; they follow it.
std::string cbor_list(std::size_t count);
/// @param members values as their bytes. They are written in the order of their keys.
std::string cbor_map(const std::map<std::string_view, std::string>& members);

// --- reading -------------------------------------------------------------------------------------

/// A value in bytes that outlive it.
class CborValue {
 public:
  /// @return nothing: the bytes are not one value and nothing else.
  static std::optional<CborValue> parse(std::string_view bytes);

  // Each gives nothing where it is something else.
  std::optional<std::uint64_t> unsigned_number() const;
  std::optional<std::int64_t> signed_number() const;
  std::optional<bool> boolean() const;
  std::optional<std::string_view> text() const;
  std::optional<std::string_view> bytes() const;
  std::optional<std::vector<CborValue>> list() const;
  bool is_map() const noexcept;
  /// The member of that name; nothing, too, where it is no map.
  std::optional<CborValue> find(std::string_view key) const;

 private:
  explicit CborValue(std::string_view bytes) : bytes_(bytes) {}

  std::string_view bytes_;
};

}  // namespace reshardfs
