// SPDX-License-Identifier: Apache-2.0
/// Words and lines that the pictures and sections of a page share.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "base/text/text.h"
#include "report/svg.h"

namespace reshardfs {

/// "20,000"
inline std::string grouped(std::uint64_t count) {
  const std::string digits = std::to_string(count);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

/// "1 rank", "20,000 ranks".
inline std::string many(std::uint64_t count, const char* one, const char* more) {
  return grouped(count) + " " + (count == 1 ? one : more);
}

/// "1.5 MiB to 2.0 MiB", or "1.5 MiB" where both read alike.
inline std::string human_range(std::uint64_t least, std::uint64_t most) {
  const std::string from = human_bytes(least);
  const std::string to = human_bytes(most);
  return from == to ? from : from + " to " + to;
}

/// "1.5 MiB (1572864 bytes)"
inline std::string exact_bytes(std::uint64_t bytes) {
  return bytes < 1024 ? human_bytes(bytes)
                      : fmt::format("{} ({} bytes)", human_bytes(bytes), bytes);
}

/// A line of a list of facts; both are escaped.
inline std::string fact_line(const std::string& term, const std::string& value) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", xml_text(term), xml_text(value));
}

/// The name of a parameter, escaped, that may go on in the next line behind each of its dots.
inline std::string breakable(const std::string& name) {
  std::string out;
  for (const char c : xml_text(name)) {
    out += c;
    if (c == '.') out += "<wbr>";
  }
  return out;
}

}  // namespace reshardfs
