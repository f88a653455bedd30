// SPDX-License-Identifier: Apache-2.0
#include "base/rank_list.h"

#include <set>
#include <string_view>

#include "reshardfs/error.h"

#include "base/text/numbers.h"

namespace reshardfs {
namespace {

Rank parse_rank(std::string_view text, const std::string& whole) {
  const auto value = parse_number(text);
  if (!value || *value >= kMaxRanks) {
    throw Error(ErrorKind::kUsage, "'" + printable(std::string(text)) + "' in the rank list '" +
                                       printable(whole) + "' is not a rank")
        .hint("write ranks and ranges separated by commas, as in 0-3,7");
  }
  return Rank(*value);
}

}  // namespace

std::vector<Rank> parse_rank_list(const std::string& text) {
  std::set<Rank> ranks;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const Rank first = parse_rank(part.substr(0, dash), text);
    const Rank last =
        dash == std::string_view::npos ? first : parse_rank(part.substr(dash + 1), text);
    if (last < first) {
      throw Error(ErrorKind::kUsage, "the range '" + std::string(part) + "' runs backwards");
    }
    for (const Rank rank : RankRange(first, last - first + 1)) ranks.insert(rank);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return {ranks.begin(), ranks.end()};
}

std::string format_rank_list(const std::vector<Rank>& ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    if (!out.empty()) out += ',';
    out += to_string(ranks[i]);
    if (j > i) out += (j == i + 1 ? "," : "-") + to_string(ranks[j]);
    i = j + 1;
  }
  return out;
}

std::string rank_words(const std::vector<Rank>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + format_rank_list(ranks);
}

}  // namespace reshardfs
