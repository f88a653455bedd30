// SPDX-License-Identifier: Apache-2.0
/// Regular expressions over names, as Python's re.match() has them, for text that others wrote: the
/// time is bounded by the product of both sizes, whatever the expression.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

/// Characters, '.', sets, \d \w \s and their opposites, groups, '|', * + ? {m,n}, ^ and $. Names
/// are taken as bytes. What depends on other text than it takes (look-around, references back, word
/// boundaries) is refused.
class NameExpression {
 public:
  /// @throws Error kUnsupported with what is not known, without a file.
  explicit NameExpression(std::string_view text);

  /// Whether it matches from the beginning of `text` on; the match may end before the text does.
  bool matches_beginning(std::string_view text) const;

 private:
  class Parser;
  using Set = std::bitset<256>;
  enum class Kind : std::uint8_t { kSet, kSplit, kBegin, kEnd, kMatch };
  struct State {
    Kind kind = Kind::kMatch;
    std::size_t set = 0;  ///< of kSet
    std::size_t next = 0;
    std::size_t other = 0;  ///< of kSplit
  };

  std::vector<State> states_;
  std::vector<Set> sets_;
  std::size_t start_ = 0;
};

}  // namespace reshardfs
