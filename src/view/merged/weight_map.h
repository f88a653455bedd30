// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reshardfs {

/// The JSON text that states which of several files has each parameter:
///   {"metadata": {"total_size": n}, "weight_map": {"name": "file", ...}}
/// Written item by item, because the JSON values of a large model would take many times the size of
/// the text.
class WeightMap {
 public:
  /// @param total_size bytes.
  /// @param indent spaces of each level.
  /// @param counts_only no text is made, only its size.
  /// @param more members of "metadata", as JSON.
  WeightMap(std::uint64_t total_size, std::size_t indent, bool counts_only = false,
            const std::vector<std::pair<std::string, std::string>>& more = {});

  /// @param parameter UTF-8.
  void add(const std::string& parameter, const std::string& file);
  /// The text, without a newline at its end. Call it only once.
  std::string finish() &&;
  /// Bytes of the same text.
  std::uint64_t finished_bytes() &&;

 private:
  void finish_text();
  std::string line(std::size_t level) const;

  std::size_t indent_;
  std::string entry_line_;  ///< begins each entry
  bool counts_only_;
  std::uint64_t counted_ = 0;  ///< bytes of entries that are not in text_
  bool empty_ = true;
  std::string text_;
};

}  // namespace reshardfs
