// SPDX-License-Identifier: Apache-2.0
#include "modelmap/pattern.h"

#include <algorithm>
#include <bitset>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/text/numbers.h"

namespace reshardfs::modelmap {
namespace {

/// Ways to read one name: far above what patterns need whose captures are told apart by what
/// stands between them.
constexpr std::size_t kMostAttempts = 10'000;
constexpr std::size_t kMostShapes = 64;
constexpr std::size_t kMaxDigits = 19;

}  // namespace

/// Reads a name along the pieces. Where a pattern has no capture twice, whether the rest of a name
/// fits the rest of the pieces depends on these alone, so that no pair of them is tried twice.
class PatternMatcher {
 public:
  PatternMatcher(const Pattern& pattern, std::string_view name, const Numberings& numberings)
      : pattern_(pattern),
        name_(name),
        numberings_(numberings),
        values_(pattern.names_.size()),
        independent_(pattern.names_.size() == pattern.captures_.size()) {}

  std::optional<std::vector<CaptureValue>> match() {
    if (!fits(0, 0)) return std::nullopt;
    return std::move(values_);
  }

 private:
  bool fits(std::size_t piece, std::size_t at) {
    if (piece == pattern_.pieces_.size()) return at == name_.size();
    const Pattern::Piece& next = pattern_.pieces_[piece];
    if (!next.capture) {
      return name_.substr(at).starts_with(pattern_.literal(next)) &&
             fits(piece + 1, at + next.size);
    }
    if (branched_ && independent_ && failed_.contains({piece, at})) return false;
    if (++attempts_ > kMostAttempts) {
      throw Error(ErrorKind::kUnsupported, "there are too many ways to read '" +
                                               printable(std::string(name_)) + "' as '" +
                                               printable(pattern_.text_) + "'");
    }
    const bool found =
        pattern_.captures_[*next.capture].is_word ? fits_word(piece, at) : fits_number(piece, at);
    if (!found && branched_ && independent_) failed_.insert({piece, at});
    return found;
  }

  /// Takes `length` bytes as this value, if the capture does not have another one.
  bool fits_value(std::size_t piece, std::size_t at, std::size_t length, CaptureValue value) {
    const std::size_t slot = pattern_.captures_[*pattern_.pieces_[piece].capture].slot;
    if (known_[slot]) return values_[slot] == value && fits(piece + 1, at + length);
    values_[slot] = std::move(value);
    known_[slot] = true;
    if (fits(piece + 1, at + length)) return true;
    known_[slot] = false;
    return false;
  }

  bool fits_number(std::size_t piece, std::size_t at) {
    std::size_t digits = 0;
    while (at + digits < name_.size() && is_digit(name_[at + digits])) ++digits;
    if (digits == 0) return false;
    std::size_t shortest = 1;
    if (pattern_.pieces_[piece].takes_all_digits) {
      shortest = digits;
    } else {
      branched_ = true;
    }
    std::size_t longest = name_[at] == '0' ? 1 : digits;
    if (pattern_.pieces_[piece].takes_all_digits && longest != digits) return false;
    longest = std::min(longest, kMaxDigits);
    for (std::size_t length = longest; length >= shortest; --length) {
      const auto number = parse_number(name_.substr(at, length));
      if (number && fits_whole_number(piece, at, length, *number)) return true;
    }
    return false;
  }

  bool fits_whole_number(std::size_t piece, std::size_t at, std::size_t length,
                         std::int64_t number) {
    const std::size_t capture = *pattern_.pieces_[piece].capture;
    const auto& second = pattern_.captures_[capture].rest;
    const std::int64_t rest = second ? number % numberings_[capture].factor : 0;
    const auto value = numberings_[capture].value_of(number - rest);
    if (!value) return false;
    if (!second) return fits_value(piece, at, length, {*value, {}});
    const std::size_t slot = pattern_.captures_[*second].slot;
    if (known_[slot]) {
      return values_[slot].number == rest && fits_value(piece, at, length, {*value, {}});
    }
    values_[slot] = {rest, {}};
    known_[slot] = true;
    if (fits_value(piece, at, length, {*value, {}})) return true;
    known_[slot] = false;
    return false;
  }

  bool fits_word(std::size_t piece, std::size_t at) {
    const Pattern::Capture& capture = pattern_.captures_[*pattern_.pieces_[piece].capture];
    if (capture.is_any_text) return fits_any_text(piece, at);
    branched_ = branched_ || capture.words.size() > 1;
    for (const auto& word : capture.words) {
      const std::string_view text = name_.substr(at, word.size());
      if (text.size() != word.size()) continue;
      bool same = true;
      for (std::size_t i = 0; same && i < word.size(); ++i) {
        same = word[i][static_cast<unsigned char>(text[i])];
      }
      if (same && fits_value(piece, at, text.size(), {0, std::string(text)})) return true;
    }
    return false;
  }

  bool fits_any_text(std::size_t piece, std::size_t at) {
    branched_ = true;
    for (std::size_t length = name_.size() - at; length > 0; --length) {
      if (fits_value(piece, at, length, {0, std::string(name_.substr(at, length))})) return true;
    }
    return false;
  }

  const Pattern& pattern_;
  std::string_view name_;
  const Numberings& numberings_;
  std::vector<CaptureValue> values_;
  std::bitset<kMaxCaptures> known_{};  ///< by slot
  bool independent_;
  bool branched_ = false;  ///< there was more than one way to go on
  std::size_t attempts_ = 0;
  std::set<std::pair<std::size_t, std::size_t>> failed_{};
};

std::optional<std::int64_t> Numbering::number_of(std::int64_t value) const {
  if (positions) {
    const auto place = static_cast<std::size_t>(value);
    return value >= 0 && place < positions->size() ? std::optional((*positions)[place])
                                                   : std::nullopt;
  }
  std::int64_t number = 0;
  const bool overflows = __builtin_mul_overflow(factor, value, &number) ||
                         __builtin_add_overflow(number, offset, &number);
  return overflows || number < 0 ? std::nullopt : std::optional(number);
}

std::optional<std::int64_t> Numbering::value_of(std::int64_t number) const {
  if (positions) {
    const auto found = std::lower_bound(positions->begin(), positions->end(), number);
    if (found == positions->end() || *found != number) return std::nullopt;
    return found - positions->begin();
  }
  std::int64_t rest = 0;
  if (__builtin_sub_overflow(number, offset, &rest) || rest < 0) return std::nullopt;
  return rest % factor == 0 ? std::optional(rest / factor) : std::nullopt;
}

std::vector<std::string> Pattern::Capture::mentioned_names() const {
  std::vector<std::string> names;
  if (is_nth()) names.emplace_back(list.empty() ? kLayerPattern : list);
  for (const auto* expression : {&factor, &offset}) {
    if (!*expression) continue;
    names.insert(names.end(), (*expression)->names().begin(), (*expression)->names().end());
  }
  return names;
}

Numberings Pattern::numberings(const NameLookup& lookup) const {
  Numberings numberings = plain_numberings();
  for (std::size_t i = 0; i < captures_.size(); ++i) {
    const Capture& capture = captures_[i];
    if (capture.is_nth()) {
      numberings[i].positions = std::make_shared<const std::vector<std::int64_t>>(
          lookup.positions(capture.list, capture.symbols));
    }
    if (capture.factor) numberings[i].factor = capture.factor->evaluate(lookup);
    if (numberings[i].factor < 1) {
      throw Error(ErrorKind::kBadInput,
                  "'" + printable(text_) + "': the factor '" + printable(capture.factor->text()) +
                      "' of {" + capture.name + "} is " + std::to_string(numberings[i].factor) +
                      ", and must be at least 1");
    }
    if (!capture.offset) continue;
    numberings[i].offset =
        mul_or_throw(capture.sign, capture.offset->evaluate(lookup), "the number of a capture");
  }
  return numberings;
}

std::optional<std::vector<CaptureValue>> Pattern::match(std::string_view name,
                                                        const Numberings& numberings) const {
  return PatternMatcher(*this, name, numberings).match();
}

std::optional<std::string> Pattern::fill(const std::vector<CaptureValue>& values,
                                         const Numberings& numberings,
                                         const std::vector<std::size_t>* places) const {
  const auto value_of = [&](const Capture& capture) -> const CaptureValue& {
    return values[places == nullptr ? capture.slot : (*places)[capture.slot]];
  };
  std::string name;
  for (const Piece& piece : pieces_) {
    if (!piece.capture) {
      name += literal(piece);
      continue;
    }
    const Capture& capture = captures_[*piece.capture];
    if (capture.is_word) {
      name += value_of(capture).word;
      continue;
    }
    auto number = numberings[*piece.capture].number_of(value_of(capture).number);
    if (number && capture.rest) {
      const std::int64_t rest = value_of(captures_[*capture.rest]).number;
      const bool is_below = rest >= 0 && rest < numberings[*piece.capture].factor;
      if (!is_below || __builtin_add_overflow(*number, rest, &*number)) return std::nullopt;
    }
    if (!number) return std::nullopt;
    name += std::to_string(*number);
  }
  return name;
}

std::string Pattern::shape(std::string_view name) {
  std::string shape;
  make_shape(name, shape);
  return shape;
}

std::vector<std::string> Pattern::shapes() const {
  std::vector<std::string> names = {""};
  const auto append = [&](const std::vector<std::string>& ends) {
    if (names.size() == 1 && ends.size() == 1) {
      names.front() += ends.front();
      return true;
    }
    std::vector<std::string> longer;
    if (names.size() * ends.size() > kMostShapes) return false;
    for (const std::string& name : names) {
      for (const std::string& end : ends) longer.push_back(name + end);
    }
    names = std::move(longer);
    return true;
  };
  for (const Piece& piece : pieces_) {
    std::vector<std::string> ends = {std::string(literal(piece))};
    if (piece.capture) ends = {"0"};
    if (piece.capture && captures_[*piece.capture].is_word) {
      ends = words_of(captures_[*piece.capture]);
      if (ends.empty()) return {};
    }
    if (!append(ends)) return {};
  }
  for (std::string& name : names) name = shape(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

/// Each text with each of these characters behind it.
std::vector<std::string> Pattern::longer_by(const std::vector<std::string>& texts,
                                            const std::bitset<256>& characters) {
  std::vector<std::string> longer;
  for (const std::string& text : texts) {
    for (std::size_t c = characters._Find_first(); c < characters.size();
         c = characters._Find_next(c)) {
      longer.push_back(text + static_cast<char>(c));
    }
  }
  return longer;
}

std::vector<std::string> Pattern::words_of(const Capture& capture) {
  std::vector<std::string> all;
  for (const auto& word : capture.words) {
    std::vector<std::string> texts = {""};
    for (const std::bitset<256>& characters : word) {
      if (texts.size() * characters.count() > kMostShapes) return {};
      texts = longer_by(texts, characters);
    }
    all.insert(all.end(), texts.begin(), texts.end());
    if (all.size() > kMostShapes) return {};
  }
  return all;
}

std::string_view Pattern::literal_start() const {
  if (pieces_.empty() || pieces_[0].capture) return {};
  return literal(pieces_[0]);
}

}  // namespace reshardfs::modelmap
