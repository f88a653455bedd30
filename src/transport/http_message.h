// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reshardfs {

/// Without blanks and ends of lines around it.
inline std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// The status and the headers of an answer.
struct HttpHead {
  long status = 0;
  std::vector<std::pair<std::string, std::string>> headers{};  ///< names in lower case

  /// The first header of a name (lower case), or nullptr.
  const std::string* find(std::string_view name) const noexcept;
  /// The same, or an empty text.
  std::string value(std::string_view name) const;
  /// A header's number; nothing if there is none, or it is no number of 63 bits.
  std::optional<std::uint64_t> number(std::string_view name) const noexcept;
  /// Takes one line as received; lines that are not headers are ignored.
  void add_line(std::string_view line);
};

/// "bytes FIRST-LAST/SIZE" (RFC 9110, 14.4).
struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  ///< of the last byte, not behind it
  std::uint64_t size = 0;  ///< of the whole object

  bool operator==(const ContentRange&) const = default;
};

/// @return nothing if it is anything else, with an unknown size ("*") too.
std::optional<ContentRange> parse_content_range(std::string_view text) noexcept;

/// Decimal digits alone, at most 63 bits.
std::optional<std::uint64_t> parse_decimal(std::string_view text) noexcept;

/// Whether an ETag tells versions of an object apart byte by byte (RFC 9110, 8.8.3): in quotation
/// marks and without "W/" before them.
bool is_strong_etag(std::string_view etag) noexcept;

}  // namespace reshardfs
