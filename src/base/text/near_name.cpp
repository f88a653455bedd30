// SPDX-License-Identifier: Apache-2.0
#include "base/text/near_name.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "reshardfs/error.h"

#include "base/text/text.h"

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

}  // namespace reshardfs
