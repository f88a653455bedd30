// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/text/text.h"

namespace reshardfs {

/// "6 s", "3 min 20 s", "2 h 5 min"
std::string duration_text(std::uint64_t seconds);

/// `text` broken behind commas and blanks so that lines have at most `columns`, where it can be;
/// lines but the first begin with `indent` blanks.
std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent);

/// The columns of the widest line of a text whose lines all end with a line feed.
std::size_t widest_line(const std::string& text);

/// Columns padded to the widest cell. The first row is the heading.
class TextTable {
 public:
  /// @param numeric columns (by number) that are aligned to the right.
  explicit TextTable(std::vector<std::string> heading, std::vector<std::size_t> numeric = {});
  void add_row(std::vector<std::string> cells);
  /// A line across all columns.
  void add_line(std::string text);
  /// Breaks the last column behind commas and blanks, where lines would be longer than `columns`.
  void wrap_last_column(std::size_t columns) { columns_ = columns; }
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> numeric_;
  std::size_t columns_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace reshardfs
