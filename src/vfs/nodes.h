// SPDX-License-Identifier: Apache-2.0
/// What trees are built of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vfs/tree.h"

namespace reshardfs {

/// The names and links of a tree's nodes, one behind the other.
class NodeTexts {
 public:
  /// @param bytes of all texts, a NUL after each included.
  explicit NodeTexts(std::size_t bytes)
      : bytes_(std::make_unique<char[]>(bytes)), end_(bytes_.get()) {}

  std::string_view add(std::string_view text) {
    char* const begin = end_;
    end_ = std::copy(text.begin(), text.end(), end_);
    *end_++ = '\0';
    return {begin, text.size()};
  }
  // NOLINTNEXTLINE(modernize-avoid-c-arrays): as long as they are
  std::unique_ptr<char[]> take() && { return std::move(bytes_); }

 private:
  std::unique_ptr<char[]> bytes_;  // NOLINT(modernize-avoid-c-arrays): as long as they are
  char* end_;
};

/// Each node is moved once: they are large.
void sort_by_number(std::vector<Node>& nodes);

/// Of one node for Tree::sum(), all but its time. @param scratch for its bytes.
std::uint64_t sum_of(const Node& node, bool is_file, std::string& scratch);

/// total += bytes, but never over the largest number.
void add_saturated(std::uint64_t& total, std::uint64_t bytes) noexcept;

}  // namespace reshardfs
