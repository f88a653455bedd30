// SPDX-License-Identifier: Apache-2.0
#include "report/text/text.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace reshardfs {

std::string duration_text(std::uint64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
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

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    widest = std::max(widest, text_width(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return widest;
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
      if (c > 0 && c + 1 == row.size() && !numeric_[c]) {
        line += "  ";
        line = wrapped(line + row[c], columns_, text_width(line));
        break;
      }
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
