// SPDX-License-Identifier: Apache-2.0
/// Patterns of whole tensor names: "model.layers.{layer}.mlp.{p:weight|bias}".
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "modelmap/expression.h"

namespace reshardfs::modelmap {

inline constexpr std::size_t kMaxCaptures = 16;  ///< in one pattern
inline constexpr std::size_t kMaxPatternBytes = 4096;

/// What a capture takes: a number, or a word of a regular expression.
struct CaptureValue {
  std::int64_t number = 0;
  std::string word{};

  /// Numbers as numbers.
  // NOLINTNEXTLINE(modernize-use-nullptr): what = default compares with is no pointer
  auto operator<=>(const CaptureValue&) const = default;
};

class Pattern {
 public:
  /// A capture where it stands.
  struct Capture {
    std::string name{};
    bool is_word = false;
    /// {i+EXPR}: what is taken away from the number in the name; {i-EXPR}: added (`sign` is -1).
    std::optional<Expression> offset{};
    std::int64_t sign = 1;
    std::size_t slot = 0;  ///< captures of the same name have the same

    /// Of a word: sets of characters, by alternative.
    std::vector<std::vector<std::bitset<256>>> words{};
  };

  /// @throws Error kBadInput that shows the pattern and says what is wrong with it.
  static Pattern parse(const std::string& text);

  const std::string& text() const noexcept { return text_; }
  const std::vector<Capture>& captures() const noexcept { return captures_; }
  /// The names of the captures by slot, in the order in which they first stand.
  const std::vector<std::string>& names() const noexcept { return names_; }
  bool is_literal() const noexcept { return captures_.empty(); }

  /// What {i+EXPR} takes away, one number for each capture.
  std::vector<std::int64_t> offsets(const NameLookup& lookup) const;

  /// @param offsets as offsets() returned them.
  /// @return the values by slot, or nothing if the name is another one. Of several ways to read it,
  ///         the one that gives earlier captures more digits, or the earlier alternative.
  std::optional<std::vector<CaptureValue>> match(std::string_view name,
                                                 const std::vector<std::int64_t>& offsets) const;

  /// The name for values by slot; nothing if a number in it would be negative.
  std::optional<std::string> fill(const std::vector<CaptureValue>& values,
                                  const std::vector<std::int64_t>& offsets) const;

  /// Names as they look with '#' for all digits that stand together: each name that the pattern
  /// takes has the shape() of one of these. Empty if there are too many.
  std::vector<std::string> shapes() const;
  static std::string shape(std::string_view name);
  /// All texts that a capture of words takes, in order; none of a number, or if they are too many.
  static std::vector<std::string> words_of(const Capture& capture);
  /// What each name that it takes starts with.
  std::string_view literal_start() const;

 private:
  friend class PatternParser;
  friend class PatternMatcher;

  struct Piece {
    std::string literal{};
    std::optional<std::size_t> capture{};
    /// No digit can follow, so that a number ends where its digits do.
    bool takes_all_digits = false;
  };

  static std::vector<std::string> longer_by(const std::vector<std::string>& texts,
                                            const std::bitset<256>& characters);

  std::string text_{};
  std::vector<Piece> pieces_{};
  std::vector<Capture> captures_{};
  std::vector<std::string> names_{};
};

}  // namespace reshardfs::modelmap
