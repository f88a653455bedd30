// SPDX-License-Identifier: Apache-2.0
#include "base/text/near_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace reshardfs {
namespace {

/// Names of options and parameters are shorter; anything longer is none that was misspelt.
constexpr std::size_t kMaxLetters = 96;

/// Fewest single changes (see the header) that make `b` of `a`: a row for each letter of a, of
/// which three are kept. O(|a| |b|).
std::size_t changes(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_above(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_above, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + other});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// Fewer letters at the beginning of a name say too little about it.
constexpr std::size_t kFewestLetters = 3;

/// The only name that begins with `given`.
std::optional<std::string> name_beginning_with(std::string_view given,
                                               const std::vector<std::string>& known) {
  if (given.size() < kFewestLetters) return {};
  std::optional<std::string> found;
  for (const std::string& name : known) {
    if (!name.starts_with(given) || name == found) continue;
    if (found) return {};
    found = name;
  }
  return found;
}

/// Those with `given` in them, as of a long name its most telling part is given.
std::vector<std::string> names_with(std::string_view given, const std::vector<std::string>& known) {
  std::vector<std::string> names;
  if (given.size() < kFewestLetters) return names;
  std::copy_if(known.begin(), known.end(), std::back_inserter(names),
               [&](const std::string& name) { return name.find(given) != std::string::npos; });
  return names;
}

}  // namespace

std::optional<std::string> near_name(std::string_view given,
                                     const std::vector<std::string>& known) {
  if (given.size() > kMaxLetters) return {};
  const std::string* nearest = nullptr;
  std::size_t fewest = 0;
  for (const std::string& name : known) {
    const std::size_t longer = std::max(given.size(), name.size());
    const std::size_t shorter = std::min(given.size(), name.size());
    if (3 * (longer - shorter) > name.size()) continue;  // so many letters at least
    const std::size_t count = changes(given, name);
    if (3 * count > name.size() || (nearest != nullptr && count >= fewest)) continue;
    nearest = &name;
    fewest = count;
  }
  if (nearest == nullptr) return name_beginning_with(given, known);
  return *nearest;
}

std::string did_you_mean(std::string_view given, const std::vector<std::string>& known) {
  if (const auto near = near_name(given, known)) {
    return "did you mean '" + printable(*near) + "'?";
  }
  constexpr std::size_t kShown = 3;
  const std::vector<std::string> longer = names_with(given, known);
  if (longer.empty()) return "";
  return (longer.size() == 1 ? "did you mean " : "did you mean one of ") +
         name_list(longer, kShown) + "?";
}

namespace {

/// Longer globs and names are no misspellings that a user could see.
constexpr std::size_t kLongestGlob = 512;
/// Cells of the tables below that are filled in all.
constexpr std::size_t kMostCells = 300'000'000;

/// One part of a glob.
struct Part {
  enum class Kind : std::uint8_t { kLetter, kAny, kSet, kStar };
  Kind kind = Kind::kLetter;
  std::string text;  ///< as the glob has it
  char letter = 0;   ///< of kLetter

  bool takes(char c) const {
    switch (kind) {
      case Kind::kLetter:
        return c == letter;
      case Kind::kSet:
        return glob_match(text, std::string(1, c));
      case Kind::kAny:
      case Kind::kStar:
        break;
    }
    return true;
  }
};

std::vector<Part> glob_parts(const std::string& glob) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < glob.size(); ++i) {
    if (glob[i] == '*') {
      parts.push_back({Part::Kind::kStar, "*", 0});
    } else if (glob[i] == '?') {
      parts.push_back({Part::Kind::kAny, "?", 0});
    } else if (const std::size_t end = glob[i] == '[' ? glob_set_end(glob, i) : i; end > i) {
      parts.push_back({Part::Kind::kSet, glob.substr(i, end - i), 0});
      i = end - 1;
    } else {
      if (glob[i] == '\\' && i + 1 < glob.size()) ++i;
      parts.push_back({Part::Kind::kLetter, glob_of(std::string(1, glob[i])), glob[i]});
    }
  }
  return parts;
}

using Distances = std::vector<std::uint32_t>;

/// Fewest changes that make the first parts of a glob match the first letters of a name: a row for
/// each number of parts.
class Changes {
 public:
  Changes(const std::vector<Part>& parts, std::string_view name) : parts_(parts), name_(name) {}

  /// @param row of which the first `above` and `two_above` are known.
  void fill(std::size_t i, Distances& row, const Distances& above,
            const Distances& two_above) const {
    const Part& part = parts_[i - 1];
    const bool star = part.kind == Part::Kind::kStar;
    row[0] = above[0] + (star ? 0 : 1);
    for (std::size_t j = 1; j <= name_.size(); ++j) {
      if (star) {
        row[j] = std::min(above[j], row[j - 1]);
        continue;
      }
      const std::uint32_t other = part.takes(name_[j - 1]) ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + other});
      if (is_swapped(i, j)) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }

  Distances first_row() const {
    Distances row(name_.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = static_cast<std::uint32_t>(j);
    return row;
  }

  std::uint32_t fewest() const {
    std::array<Distances, 3> rows{Distances(name_.size() + 1), Distances(name_.size() + 1),
                                  first_row()};
    for (std::size_t i = 1; i <= parts_.size(); ++i) {
      std::swap(rows[0], rows[1]);
      std::swap(rows[1], rows[2]);
      fill(i, rows[2], rows[1], rows[0]);
    }
    return rows[2].back();
  }

  /// The glob with the fewest changes.
  std::string changed() const {
    std::vector<Distances> rows{first_row()};
    for (std::size_t i = 1; i <= parts_.size(); ++i) {
      rows.emplace_back(name_.size() + 1);
      fill(i, rows[i], rows[i - 1], rows[i < 2 ? 0 : i - 2]);
    }
    std::vector<std::string> texts;  // from the last one on
    std::size_t i = parts_.size();
    std::size_t j = name_.size();
    while (i > 0 || j > 0) {
      const std::uint32_t cost = rows[i][j];
      const bool star = i > 0 && parts_[i - 1].kind == Part::Kind::kStar;
      if (star && j > 0 && rows[i][j - 1] == cost) {
        --j;
      } else if (star) {
        texts.push_back(parts_[--i].text);
      } else if (i > 0 && j > 0 && parts_[i - 1].takes(name_[j - 1]) &&
                 rows[i - 1][j - 1] == cost) {
        texts.push_back(parts_[--i].text);
        --j;
      } else if (i > 1 && j > 1 && is_swapped(i, j) && rows[i - 2][j - 2] + 1 == cost) {
        texts.push_back(letter(j - 1));
        texts.push_back(letter(j - 2));
        i -= 2;
        j -= 2;
      } else if (i > 0 && j > 0 && rows[i - 1][j - 1] + 1 == cost) {
        texts.push_back(letter(j - 1));
        --i;
        --j;
      } else if (j > 0 && rows[i][j - 1] + 1 == cost) {
        texts.push_back(letter(--j));
      } else {
        --i;
      }
    }
    std::string glob;
    for (auto text = texts.rbegin(); text != texts.rend(); ++text) glob += *text;
    return glob;
  }

 private:
  bool is_swapped(std::size_t i, std::size_t j) const {
    return i > 1 && j > 1 && is_letter(i - 1, name_[j - 2]) && is_letter(i - 2, name_[j - 1]);
  }
  bool is_letter(std::size_t part, char c) const {
    return parts_[part].kind == Part::Kind::kLetter && parts_[part].letter == c;
  }
  std::string letter(std::size_t j) const { return glob_of(std::string(1, name_[j])); }

  const std::vector<Part>& parts_;
  std::string_view name_;
};

std::size_t letters_of(const std::vector<Part>& parts) {
  return static_cast<std::size_t>(std::count_if(parts.begin(), parts.end(), [](const Part& part) {
    return part.kind == Part::Kind::kLetter;
  }));
}

/// The glob with '*' at an end or both, if a name then matches.
std::optional<NearGlob> widened(const std::string& glob, const std::vector<std::string>& names) {
  const std::array<std::string, 3> wider{glob + "*", "*" + glob, "*" + glob + "*"};
  for (const std::string& candidate : wider) {
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return glob_match(candidate, name);
    });
    if (found != names.end()) return NearGlob{*found, candidate};
  }
  return std::nullopt;
}

}  // namespace

std::optional<NearGlob> near_glob(const std::string& glob, const std::vector<std::string>& names) {
  if (names.empty()) return std::nullopt;
  constexpr std::size_t kFewestLetters = 3;
  const std::vector<Part> parts = glob_parts(glob);
  const std::size_t letters = letters_of(parts);
  if (glob.size() > kLongestGlob) return NearGlob{names.front()};
  if (letters >= kFewestLetters) {
    if (auto wider = widened(glob, names)) return wider;
  }
  const std::string* nearest = nullptr;
  std::uint32_t fewest = 0;
  std::size_t cells = 0;
  for (const std::string& name : names) {
    if (name.size() > kLongestGlob) continue;
    cells += (parts.size() + 1) * (name.size() + 1);
    if (cells > kMostCells) break;
    const std::uint32_t count = Changes(parts, name).fewest();
    if (nearest != nullptr && count >= fewest) continue;
    nearest = &name;
    fewest = count;
    if (fewest <= 1) break;  // 0 would match
  }
  if (nearest == nullptr) return NearGlob{names.front()};
  NearGlob near{*nearest};
  if (3 * fewest <= letters) {
    std::string changed = Changes(parts, *nearest).changed();
    if (is_utf8(changed) && glob_match(changed, *nearest)) near.glob = std::move(changed);
  }
  return near;
}

}  // namespace reshardfs
