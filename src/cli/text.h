// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs {

/// "1.5 MiB"
std::string human_bytes(std::uint64_t bytes);

/// Columns padded to the widest cell. The first row is the heading.
class TextTable {
 public:
  /// @param numeric columns (by number) that are aligned to the right.
  explicit TextTable(std::vector<std::string> heading, std::vector<std::size_t> numeric = {});
  void add_row(std::vector<std::string> cells);
  std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> numeric_;
};

}  // namespace reshardfs
