// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs {

/// "1.5 MiB"
std::string human_bytes(std::uint64_t bytes);

/// "6 s", "3 min 20 s", "2 h 5 min"
std::string duration_text(std::uint64_t seconds);

/// Columns that a UTF-8 text takes on a terminal: two for a character of East Asia.
std::size_t text_width(const std::string& text);

/// `text`, or its beginning and end with "..." between them, in at most `columns`.
std::string shortened(const std::string& text, std::size_t columns);

/// `text` broken behind commas and blanks so that lines have at most `columns`, where it can be;
/// lines but the first begin with `indent` blanks.
std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent);

/// Columns padded to the widest cell. The first row is the heading.
class TextTable {
 public:
  /// @param numeric columns (by number) that are aligned to the right.
  explicit TextTable(std::vector<std::string> heading, std::vector<std::size_t> numeric = {});
  void add_row(std::vector<std::string> cells);
  /// A line across all columns.
  void add_line(std::string text);
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> numeric_;
};

}  // namespace reshardfs
