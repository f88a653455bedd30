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

#include "base/text/numbers.h"
#include "modelmap/expression.h"

namespace reshardfs::modelmap {

inline constexpr std::size_t kMaxCaptures = 16;  ///< in one pattern
inline constexpr std::size_t kMaxPatternBytes = 4096;

/// How the number in a name follows from the value of a capture that is a number.
struct Numbering {
  std::int64_t factor = 1;  ///< at least 1
  std::int64_t offset = 0;
  /// Of {nth(i, ...)}: the number of each value, ascending; nullptr for other captures.
  std::shared_ptr<const std::vector<std::int64_t>> positions{};

  /// The number for a value; nothing if it would be negative, or exceeds 64 bits.
  std::optional<std::int64_t> number_of(std::int64_t value) const;
  /// The value for a number, none of which is negative; nothing if no value has the number.
  std::optional<std::int64_t> value_of(std::int64_t number) const;
};

/// Of all captures of a pattern. Those of words have one that means nothing.
using Numberings = std::vector<Numbering>;

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
    /// {FACTOR*i+EXPR}: the number in the name is that many times i, and EXPR more; {i-EXPR}: less
    /// (`sign` is -1).
    std::shared_ptr<const Expression> factor{};
    std::shared_ptr<const Expression> offset{};
    std::int64_t sign = 1;
    /// {FACTOR*i+j<FACTOR}: the number in the name has two captures. This is the second one's place
    /// in captures(), which stands in no text of its own.
    std::optional<std::size_t> rest{};
    std::size_t slot = 0;  ///< captures of the same name have the same

    /// Of a word: sets of characters, by alternative.
    std::vector<std::vector<std::bitset<256>>> words{};
    /// {rest:*}: a word of any characters, of which there is at least one.
    bool is_any_text = false;

    /// {nth(i, "*+")}: the number in the name is that of the i-th layer with one of these symbols;
    /// {nth(i, list == "text")}: of the i-th element of a list of config.json that is this text.
    std::string symbols{};
    std::string list{};

    bool is_nth() const noexcept { return !symbols.empty(); }
    /// Whether it is the number in the name itself, or a word.
    bool is_plain() const noexcept { return !factor && !offset && !is_nth(); }
    /// The names that its number depends on.
    std::vector<std::string> mentioned_names() const;
  };

  /// @throws Error kBadInput that shows the pattern and says what is wrong with it.
  static Pattern parse(const std::string& text);

  const std::string& text() const noexcept { return text_; }
  const std::vector<Capture>& captures() const noexcept { return captures_; }
  /// The names of the captures by slot, in the order in which they first stand.
  const std::vector<std::string>& names() const noexcept { return names_; }
  bool is_literal() const noexcept { return captures_.empty(); }

  /// One for each capture.
  /// @throws Error kBadInput for a factor below 1; what `lookup` and Expression::evaluate() throw.
  Numberings numberings(const NameLookup& lookup) const;
  /// With the numbers in names as the values, whatever the captures make of them.
  Numberings plain_numberings() const { return Numberings(captures_.size()); }

  /// @param numberings as numberings() returned them.
  /// @return the values by slot, or nothing if the name is another one. Of several ways to read it,
  ///         the one that gives earlier captures more digits, or the earlier alternative.
  std::optional<std::vector<CaptureValue>> match(std::string_view name,
                                                 const Numberings& numberings) const;

  /// The name for values by slot; nothing if one has no number.
  /// @param places in `values`, by slot; nullptr: as slots.
  std::optional<std::string> fill(const std::vector<CaptureValue>& values,
                                  const Numberings& numberings,
                                  const std::vector<std::size_t>* places = nullptr) const;

  /// Names as they look with '#' for all digits that stand together: each name that the pattern
  /// takes has the shape() of one of these. Empty if there are too many.
  std::vector<std::string> shapes() const;
  static std::string shape(std::string_view name);
  /// @param shape a string with any allocator.
  template <typename Text>
  static void make_shape(std::string_view name, Text& shape) {
    shape.resize(name.size());
    std::size_t end = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
      if (!is_digit(name[i])) {
        shape[end++] = name[i];
      } else if (i == 0 || !is_digit(name[i - 1])) {
        shape[end++] = '#';
      }
    }
    shape.resize(end);
  }
  /// All texts that a capture of words takes, in order; none of a number, or if they are too many,
  /// as those of {rest:*}.
  static std::vector<std::string> words_of(const Capture& capture);
  /// What each name that it takes starts with.
  std::string_view literal_start() const;

 private:
  friend class PatternParser;
  friend class PatternMatcher;

  struct Piece {
    /// Where in the text it is, unless it is a capture.
    std::size_t begin = 0;
    std::size_t size = 0;
    std::optional<std::size_t> capture{};
    /// No digit can follow, so that a number ends where its digits do.
    bool takes_all_digits = false;
  };

  std::string_view literal(const Piece& piece) const {
    return std::string_view(text_).substr(piece.begin, piece.size);
  }
  static std::vector<std::string> longer_by(const std::vector<std::string>& texts,
                                            const std::bitset<256>& characters);

  std::string text_{};
  std::vector<Piece> pieces_{};
  std::vector<Capture> captures_{};
  std::vector<std::string> names_{};
};

}  // namespace reshardfs::modelmap
