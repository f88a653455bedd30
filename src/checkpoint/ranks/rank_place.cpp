// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/rank_place.h"

#include <algorithm>
#include <array>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/recognition.h"
#include "checkpoint/series/step_directories.h"
#include "format/input_format.h"
#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNumerals = "0123456789";
constexpr std::string_view kSeparators = "_-";

bool is_rank_word(std::string_view word) {
  constexpr std::array<std::string_view, 9> kRankWords{"rank", "node", "ckpt", "mp", "tp",
                                                       "pp",   "ep",   "dp",   "cp"};
  return std::find(kRankWords.begin(), kRankWords.end(), word) != kRankWords.end();
}

bool holds_checkpoint(const fs::path& directory) {
  const std::vector<DirectoryEntry> entries = list_directory(directory);
  return std::any_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return entry.is_regular && (has_checkpoint_name(entry.name) || has_torch_name(entry.name));
  });
}

struct RankGroup {
  std::string name{};
  RankName own{};
  std::vector<std::string> all{};  ///< this one and those beside it
  bool has_first = false;
  bool has_others = false;  ///< with checkpoints
};

/// Steps may be counted in such names, too, and each of them is a model with its configuration.
bool is_step_of_models(const RankName& name, const fs::path& directory) {
  return name.form.find("rank") == std::string::npos &&
         path_kind(directory / "config.json") == PathKind::kOther;
}

std::optional<RankGroup> rank_group(const fs::path& directory) {
  RankGroup out;
  out.name = directory_name(directory);
  const auto parsed = parse_rank_name(out.name);
  if (!parsed || is_url(directory)) return std::nullopt;
  out.own = *parsed;
  if (is_step_of_models(out.own, directory)) return std::nullopt;
  constexpr int kMostRead = 16;
  int searched = 0;
  const fs::path above = path_above(directory);
  const fs::path place = above.empty() ? fs::path(".") : above;
  for (const std::string& name : directories_by_number(place, nullptr)) {
    const auto other = parse_rank_name(name);
    if (!other || other->form != out.own.form) continue;
    out.all.push_back(name);
    out.has_first = out.has_first || other->is_first();
    if (out.has_others || name == out.name || searched == kMostRead) continue;
    ++searched;
    out.has_others = holds_checkpoint(place / name);
  }
  return out;
}

/// As rank_group(), or nothing where what is above may not be listed.
std::optional<RankGroup> known_group(const fs::path& directory) {
  try {
    return rank_group(directory);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool are_several(const RankGroup& found) {
  return found.has_first && found.has_others;
}

std::string words_of(const RankGroup& found, const fs::path& directory) {
  const fs::path above = path_above(directory);
  const fs::path set = above.empty() ? fs::path(".") : above;
  if (found.own.numbers.size() > 1) {
    std::vector<std::string> names = found.all;
    std::sort(names.begin(), names.end());
    return "belongs to one rank alone, and " + printable(set.string()) + " has the directories " +
           name_list(names);
  }
  std::vector<Rank> ranks;
  for (const std::string& name : found.all) {
    ranks.emplace_back(parse_rank_name(name)->numbers.front());
  }
  std::sort(ranks.begin(), ranks.end());
  return one_rank_words(Rank(found.own.numbers.front()), set, ranks);
}

}  // namespace

bool RankName::is_first() const noexcept {
  return std::all_of(numbers.begin(), numbers.end(), [](std::int64_t n) { return n == 0; });
}

std::optional<RankName> parse_rank_name(std::string_view name) {
  RankName out;
  bool has_word = false;
  while (!name.empty()) {
    std::size_t length = 1;
    if (kSeparators.find(name.front()) != std::string_view::npos) {
      out.form += name.front();
    } else if (is_digit(name.front())) {
      length = std::min(name.find_first_not_of(kNumerals), name.size());
      const auto number = parse_number(name.substr(0, length));
      if (!number || *number >= kMaxRanks || !has_word) return std::nullopt;
      out.numbers.push_back(*number);
      out.form += '#';
    } else {
      length = std::min(name.find_first_of("0123456789_-"), name.size());
      const std::string_view word = name.substr(0, length);
      if (!is_rank_word(word)) return std::nullopt;
      has_word = true;
      out.says_rank = out.says_rank || word == "rank" || word == "node" || word == "ckpt";
      out.form += word;
    }
    name.remove_prefix(length);
  }
  // Of epochs, more often.
  const bool is_ep_alone = out.form == "ep#" || out.form == "ep_#" || out.form == "ep-#";
  if (out.numbers.empty() || is_ep_alone) return std::nullopt;
  return out;
}

fs::path path_above(const fs::path& path) {
  fs::path plain = path.lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  if (plain.empty() || plain == "." || plain.filename() == "..") return plain / "..";
  return plain.parent_path();
}

bool is_rank_directory(const fs::path& directory) {
  const auto parsed = parse_rank_name(directory_name(directory));
  if (!parsed) return false;
  if (parsed->says_rank && !parsed->is_first()) return true;
  const auto found = known_group(directory);
  return found && are_several(*found);
}

std::string one_rank_words(Rank rank, const fs::path& set, const std::vector<Rank>& ranks) {
  return "is of rank " + to_string(rank) + " alone, and " + printable(set.string()) +
         " has ranks " + format_rank_list(ranks);
}

std::string rank_alone_words(const fs::path& directory) {
  const auto found = known_group(directory);
  return found && are_several(*found) ? words_of(*found, directory) : std::string();
}

void refuse_one_rank(const fs::path& source) {
  const auto found = known_group(source);
  if (!found || !are_several(*found) || !holds_checkpoint(source)) return;
  throw Error(ErrorKind::kMissing, words_of(*found, source))
      .in_file(source.string())
      .needs(Need::kSource)
      .hint("name the directory above as the source, or a file in it to read that file alone");
}

}  // namespace reshardfs
