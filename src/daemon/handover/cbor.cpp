// SPDX-License-Identifier: Apache-2.0
#include "daemon/handover/cbor.h"

#include <limits>

namespace reshardfs {
namespace {

enum class Major : std::uint8_t {
  kUnsigned,
  kNegative,
  kBytes,
  kText,
  kList,
  kMap,
  kTag,
  kSimple,
};

constexpr std::uint64_t kFalse = 20;
constexpr std::uint64_t kTrue = 21;
/// In the first byte: the argument follows, in 1, 2, 4 or 8 bytes.
constexpr unsigned kOneByte = 24;
constexpr unsigned kEightBytes = 27;
/// As many lists and maps may be inside each other.
constexpr int kMostDepth = 16;

/// What a value begins with: in as few bytes as it takes.
std::string head(Major major, std::uint64_t argument) {
  const unsigned type = static_cast<unsigned>(major) << 5U;
  if (argument < kOneByte) return {static_cast<char>(type | argument)};
  unsigned code = kOneByte;
  while (code < kEightBytes && argument >> (8U << (code - kOneByte)) != 0) ++code;
  std::string bytes{static_cast<char>(type | code)};
  for (unsigned shift = 8U << (code - kOneByte); shift > 0; shift -= 8) {
    bytes += static_cast<char>(argument >> (shift - 8U) & 0xffU);
  }
  return bytes;
}

struct Head {
  Major major{};
  unsigned code = 0;  ///< what the first byte has beside the major type
  std::uint64_t argument = 0;
};

/// @return nothing: the bytes end in it, or have a value of unknown size.
std::optional<Head> take_head(std::string_view& bytes) {
  if (bytes.empty()) return std::nullopt;
  const auto first = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  Head head{static_cast<Major>(first >> 5U), first & 0x1fU, first & 0x1fU};
  if (head.code < kOneByte) return head;
  if (head.code > kEightBytes) return std::nullopt;
  const std::size_t size = std::size_t{1} << (head.code - kOneByte);
  if (bytes.size() < size) return std::nullopt;
  head.argument = 0;
  for (const char byte : bytes.substr(0, size)) {
    head.argument = head.argument << 8U | static_cast<unsigned char>(byte);
  }
  bytes.remove_prefix(size);
  return head;
}

bool pass_over(std::string_view& bytes, int depth);

bool pass_over_values(std::string_view& bytes, std::uint64_t count, int depth) {
  if (depth == kMostDepth) return false;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!pass_over(bytes, depth + 1)) return false;
  }
  return true;
}

/// @return false: they do not begin with a value.
bool pass_over(std::string_view& bytes, int depth) {
  const auto head = take_head(bytes);
  if (!head) return false;
  switch (head->major) {
    case Major::kBytes:
    case Major::kText:
      if (head->argument > bytes.size()) return false;
      bytes.remove_prefix(static_cast<std::size_t>(head->argument));
      return true;
    case Major::kList:
      return pass_over_values(bytes, head->argument, depth);
    case Major::kMap:
      // Each member takes two bytes, so that a count that cannot be is no endless work.
      return head->argument <= bytes.size() && pass_over_values(bytes, 2 * head->argument, depth);
    case Major::kTag:
      return false;
    case Major::kUnsigned:
    case Major::kNegative:
    case Major::kSimple:
      break;
  }
  return true;
}

/// The value that good bytes begin with.
std::string_view take_value(std::string_view& bytes) {
  const std::string_view all = bytes;
  pass_over(bytes, 0);
  return all.substr(0, all.size() - bytes.size());
}

/// What a text or bytes have.
std::optional<std::string_view> contents_of(std::string_view value, Major major) {
  const auto head = take_head(value);
  return head && head->major == major ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string cbor_unsigned(std::uint64_t number) {
  return head(Major::kUnsigned, number);
}

std::string cbor_signed(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  return number < 0 ? head(Major::kNegative, ~bits) : head(Major::kUnsigned, bits);
}

std::string cbor_boolean(bool value) {
  return head(Major::kSimple, value ? kTrue : kFalse);
}

std::string cbor_text(std::string_view text) {
  return head(Major::kText, text.size()).append(text);
}

std::string cbor_bytes(std::string_view bytes) {
  return head(Major::kBytes, bytes.size()).append(bytes);
}

std::string cbor_list(std::size_t count) {
  return head(Major::kList, count);
}

std::string cbor_map(const std::map<std::string_view, std::string>& members) {
  std::string bytes = head(Major::kMap, members.size());
  for (const auto& [key, value] : members) bytes.append(cbor_text(key)).append(value);
  return bytes;
}

std::optional<CborValue> CborValue::parse(std::string_view bytes) {
  std::string_view rest = bytes;
  if (!pass_over(rest, 0) || !rest.empty()) return std::nullopt;
  return CborValue(bytes);
}

std::optional<std::uint64_t> CborValue::unsigned_number() const {
  std::string_view bytes = bytes_;
  const auto head = take_head(bytes);
  return head && head->major == Major::kUnsigned ? std::optional(head->argument) : std::nullopt;
}

std::optional<std::int64_t> CborValue::signed_number() const {
  std::string_view bytes = bytes_;
  const auto head = take_head(bytes);
  const bool is_number =
      head && (head->major == Major::kUnsigned || head->major == Major::kNegative);
  if (!is_number || head->argument > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  const auto number = static_cast<std::int64_t>(head->argument);
  return head->major == Major::kNegative ? -1 - number : number;
}

std::optional<bool> CborValue::boolean() const {
  std::string_view bytes = bytes_;
  const auto head = take_head(bytes);
  if (!head || head->major != Major::kSimple) return std::nullopt;
  if (head->code != kFalse && head->code != kTrue) return std::nullopt;
  return head->code == kTrue;
}

std::optional<std::string_view> CborValue::text() const {
  return contents_of(bytes_, Major::kText);
}

std::optional<std::string_view> CborValue::bytes() const {
  return contents_of(bytes_, Major::kBytes);
}

std::optional<std::vector<CborValue>> CborValue::list() const {
  std::string_view rest = bytes_;
  const auto head = take_head(rest);
  if (!head || head->major != Major::kList) return std::nullopt;
  std::vector<CborValue> values;
  while (!rest.empty()) values.push_back(CborValue(take_value(rest)));
  return values;
}

bool CborValue::is_map() const noexcept {
  return static_cast<Major>(static_cast<unsigned char>(bytes_.front()) >> 5U) == Major::kMap;
}

std::optional<CborValue> CborValue::find(std::string_view key) const {
  std::string_view rest = bytes_;
  const auto head = take_head(rest);
  if (!head || head->major != Major::kMap) return std::nullopt;
  while (!rest.empty()) {
    const CborValue name(take_value(rest));
    const CborValue value(take_value(rest));
    if (name.text() == key) return value;
  }
  return std::nullopt;
}

}  // namespace reshardfs
