// SPDX-License-Identifier: Apache-2.0
#include "cli/text.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace reshardfs {
namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

}  // namespace

std::string duration_text(std::uint64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

std::size_t text_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::string shortened(const std::string& text, std::size_t columns) {
  constexpr std::size_t kEllipsis = 3;
  const std::size_t width = text_width(text);
  if (width <= columns || columns <= kEllipsis) return text;
  // The end says more: layers of a model begin alike.
  const std::size_t tail = (columns - kEllipsis + 1) / 2;
  const std::size_t head = columns - kEllipsis - tail;
  std::string first;
  std::string last;
  std::size_t position = 0;  // of the code point
  for (const char c : text) {
    if (!is_continuation(c)) ++position;
    if (position <= head) first += c;
    if (position > width - tail) last += c;
  }
  return first + "..." + last;
}

std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent) {
  std::string out;
  std::size_t column = 0;
  bool line_has_text = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t stop = text.find_first_of(", ", begin);
    const std::size_t end = stop == std::string::npos ? text.size() : stop + 1;
    const std::string word = text.substr(begin, end - begin);
    begin = end;
    // A blank at the end of a line takes no room.
    const std::size_t width = text_width(word);
    const std::size_t needed = word.back() == ' ' ? width - 1 : width;
    if (line_has_text && column + needed > columns) {
      out.erase(out.find_last_not_of(' ') + 1);
      out += "\n" + std::string(indent, ' ');
      column = indent;
      if (word == " ") continue;
    }
    out += word;
    column += width;
    line_has_text = line_has_text || word != " ";
  }
  return out;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

TextTable::TextTable(std::vector<std::string> heading, std::vector<std::size_t> numeric)
    : numeric_(heading.size(), false) {
  for (const std::size_t column : numeric) numeric_[column] = true;
  rows_.push_back(std::move(heading));
}

void TextTable::add_row(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}

void TextTable::add_line(std::string text) {
  rows_.push_back({std::move(text)});
}

std::string TextTable::str() const {
  std::vector<std::size_t> widths(numeric_.size(), 0);
  const auto is_line = [&](const auto& row) { return row.size() < numeric_.size(); };
  for (const auto& row : rows_) {
    if (is_line(row)) continue;
    for (std::size_t c = 0; c < row.size(); ++c)
      widths[c] = std::max(widths[c], text_width(row[c]));
  }
  std::string out;
  for (const auto& row : rows_) {
    if (is_line(row)) {
      out += row.front() + "\n";
      continue;
    }
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - text_width(row[c]), ' ');
      if (c > 0) line += "  ";
      line += numeric_[c] ? padding + row[c] : row[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace reshardfs
