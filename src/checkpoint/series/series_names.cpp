// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/series_names.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/text/numbers.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/series/step.h"

namespace reshardfs {
namespace {

constexpr std::string_view kBreakpoint = "_breakpoint";
/// Behind the series' name. No file name has a slash.
constexpr std::string_view kBreakpointMark = "/breakpoint";
constexpr std::string_view kStep = "{step}";
/// In no name that is worth a thought.
constexpr std::string_view kNumber = "\x01";

std::string_view stem_of(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

/// The name with `text` for each `what`.
std::string replaced(std::string_view name, std::string_view what, std::string_view text) {
  std::string out;
  for (std::size_t at = name.find(what); at != std::string_view::npos; at = name.find(what)) {
    out.append(name.substr(0, at)).append(text);
    name.remove_prefix(at + what.size());
  }
  return out.append(name);
}

/// A name and the numbers in it, in the order in which they stand there.
struct NumbersInName {
  std::string skeleton;                             ///< with kNumber in the place of each
  std::vector<std::optional<std::int64_t>> values;  ///< nothing: too large for a rank
  std::vector<std::size_t> places;                  ///< where each begins in the name
  std::vector<std::size_t> lengths;
};

NumbersInName numbers_in(std::string_view name) {
  NumbersInName out;
  for (std::size_t at = 0; at < name.size();) {
    if (!is_digit(name[at])) {
      out.skeleton += name[at++];
      continue;
    }
    const std::size_t length = std::min(name.find_first_not_of("0123456789", at), name.size()) - at;
    out.values.push_back(parse_number(name.substr(at, length)));
    out.places.push_back(at);
    out.lengths.push_back(length);
    out.skeleton += kNumber;
    at += length;
  }
  return out;
}

bool ends_in_rank_word(std::string_view text) {
  constexpr std::string_view kWord = "rank";
  if (!text.empty() && (text.back() == '_' || text.back() == '-')) text.remove_suffix(1);
  if (text.size() < kWord.size()) return false;
  const std::string_view last = text.substr(text.size() - kWord.size());
  return std::equal(last.begin(), last.end(), kWord.begin(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

/// With kRankPlace in the place of the numbers for which `is_rank` holds.
template <typename IsRank>
std::string with_rank(const std::string& name, const NumbersInName& numbers, IsRank&& is_rank) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t i = 0; i < numbers.places.size(); ++i) {
    if (!is_rank(i)) continue;
    out.append(name, from, numbers.places[i] - from).append(kRankPlace);
    from = numbers.places[i] + numbers.lengths[i];
  }
  return out.append(name, from);
}

std::string without_named_rank(const std::string& name, Rank rank) {
  const NumbersInName numbers = numbers_in(name);
  return with_rank(name, numbers, [&](std::size_t i) {
    return numbers.values[i] == rank.number() &&
           ends_in_rank_word(std::string_view(name).substr(0, numbers.places[i]));
  });
}

/// Names of one skeleton, each with a rank that has such files.
struct NameGroup {
  std::vector<std::pair<NumbersInName, Rank>> members;
  bool has_steps = false;
};

using Groups = std::map<std::string, NameGroup>;

/// The skeleton without one of its numbers, and without what separates it from the rest.
std::string without_number(const std::string& skeleton, std::size_t number) {
  std::size_t at = skeleton.find(kNumber);
  for (std::size_t i = 0; i < number; ++i) at = skeleton.find(kNumber, at + 1);
  const bool separated = at > 0 && (skeleton[at - 1] == '_' || skeleton[at - 1] == '-');
  const std::size_t from = separated ? at - 1 : at;
  return skeleton.substr(0, from) + skeleton.substr(at + 1);
}

/// Whether the number is each file's rank. Runs are counted, too ("net_1"), and models ("net1"):
/// one file with another number is enough to say no, and so is "net" itself, or a rank without such
/// files. No run has the number 0.
bool is_rank(const Groups& groups, const std::string& skeleton, std::size_t number,
             const std::set<Rank>& all_ranks) {
  const NameGroup& group = groups.at(skeleton);
  std::set<Rank> ranks;
  for (const auto& [numbers, rank] : group.members) {
    if (numbers.values[number] != rank.number()) return false;
    ranks.insert(rank);
  }
  if (ranks.size() < 2) return false;
  if (ranks.begin()->number() == 0) return true;
  if (groups.contains(without_number(skeleton, number))) return false;
  if (!group.has_steps) return true;
  const std::size_t last = group.members.front().first.values.size() - 1;
  const bool may_be_run = number == last && skeleton.ends_with(std::string("_").append(kNumber));
  return !may_be_run && ranks == all_ranks;
}

template <typename Take>
void for_each_file(RankFiles& found, Take&& take) {
  for (FoundFile& file : found.files) take(file);
  for (FoundFile& file : found.unfinished) take(file);
}

constexpr StepNames kIterNames{parse_iter_directory, "release"};

}  // namespace

std::string without_breakpoint(std::string_view file_name) {
  const std::string_view stem = stem_of(file_name);
  if (!stem.ends_with(kBreakpoint)) return std::string(file_name);
  return std::string(stem.substr(0, stem.size() - kBreakpoint.size()))
      .append(file_name.substr(stem.size()));
}

std::string series_of_shape(std::string_view shape) {
  // Where the pattern tells the step, one that the functions below know stands for it.
  constexpr std::string_view kAnyStep = "0_0";
  const std::size_t name_at = shape.rfind('/') + 1;  // npos + 1 is 0
  const std::string name = replaced(shape.substr(name_at), kStep, kAnyStep);
  const std::string ordinary = without_breakpoint(name);
  const RankPartName segment = rank_part_name(ordinary);
  const std::string& whole = segment.whole;
  const std::string step = segment.has_step ? step_in_file_name(whole) : std::string();
  std::string prefix(stem_of(whole));
  if (!step.empty()) prefix.resize(prefix.size() - step.size() - 1);
  return std::string(shape.substr(0, name_at)) + prefix +
         std::string(ordinary == name ? "" : kBreakpointMark);
}

void take_ranks_out_of_series(RankFiles& found) {
  std::set<std::pair<std::string, Rank>> with_steps;
  std::map<std::pair<std::string, Rank>, std::string> names;
  std::set<std::string> distinct;
  std::set<Rank> all_ranks = found.ranks_with_directory;
  for_each_file(found, [&](FoundFile& file) {
    file.series = without_named_rank(file.series, file.rank);
    names[{file.series, file.rank}];
    distinct.insert(file.series);
    all_ranks.insert(file.rank);
    if (!file.step.empty()) with_steps.insert({file.series, file.rank});
  });
  if (distinct.size() < 2) return;
  Groups groups;
  for (const auto& [used, unused] : names) {
    NumbersInName numbers = numbers_in(used.first);
    NameGroup& group = groups[numbers.skeleton];
    group.has_steps = group.has_steps || with_steps.contains(used);
    group.members.emplace_back(std::move(numbers), used.second);
  }
  std::map<std::string, std::vector<bool>> ranks_in;
  for (const auto& [skeleton, group] : groups) {
    std::vector<bool>& numbers = ranks_in[skeleton];
    for (std::size_t i = 0; i < group.members.front().first.values.size(); ++i) {
      numbers.push_back(is_rank(groups, skeleton, i, all_ranks));
    }
  }
  for (auto& [used, name] : names) {
    const NumbersInName numbers = numbers_in(used.first);
    const std::vector<bool>& ranks = ranks_in.at(numbers.skeleton);
    name = with_rank(used.first, numbers, [&](std::size_t i) { return ranks[i]; });
  }
  for_each_file(found, [&](FoundFile& file) { file.series = names.at({file.series, file.rank}); });
}

bool is_breakpoint_series(std::string_view series) {
  return series.ends_with(kBreakpointMark);
}

std::string path_of_series(std::string_view series) {
  if (!is_breakpoint_series(series)) return std::string(series);
  return std::string(series.substr(0, series.size() - kBreakpointMark.size())).append(kBreakpoint);
}

std::string prefix_of_series(std::string_view series) {
  const std::string path = path_of_series(series);
  return path.substr(path.rfind('/') + 1);
}

std::optional<std::string> parse_iter_directory(std::string_view name) {
  constexpr std::string_view kBefore = "iter_";
  constexpr std::size_t kDigits = 7;
  if (!name.starts_with(kBefore) || name.size() < kBefore.size() + kDigits) return std::nullopt;
  const auto step = parse_number(name.substr(kBefore.size()));
  return step ? std::optional(std::to_string(*step)) : std::nullopt;
}

std::optional<StepDirectories> find_iters(const std::filesystem::path& directory,
                                          const SourceTreePtr& tree, bool needs_tracker) {
  auto found = list_steps(directory, kIterNames, tree, needs_tracker);
  if (!found) return std::nullopt;
  const bool has_release = found->release && found->tracks_release;
  if (found->directories.empty() && !has_release) return std::nullopt;
  return found;
}

}  // namespace reshardfs
