// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/series/series.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/glob.h"
#include "base/text/near_name.h"
#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/series/series_names.h"
#include "checkpoint/series/step.h"
#include "checkpoint/set_format.h"
#include "checkpoint/source_links.h"

namespace reshardfs {
namespace {

/// "net" for "net_rank_{rank}", "checkpoint_" for "checkpoint_{rank}".
std::string without_rank_at_end(const std::string& prefix) {
  std::string_view text = prefix;
  if (!text.ends_with(kRankPlace)) return prefix;
  text.remove_suffix(kRankPlace.size());
  for (const std::string_view word : {"_rank_", "-rank-", "_rank", "-rank", "rank_", "rank"}) {
    if (text.size() <= word.size() || !text.ends_with(word)) continue;
    return std::string(text.substr(0, text.size() - word.size()));
  }
  return text.empty() ? prefix : std::string(text);
}

/// All names that stand for each series, by FoundFile::series.
class SeriesNames {
 public:
  explicit SeriesNames(const RankFiles& found) {
    for (const FoundFile& file : found.files) known_.insert(file.series);
    for (const std::string& series : known_) {
      for (std::size_t i = 0; i < kForms.size(); ++i) ++uses_[i][kForms[i](series)];
    }
  }

  const std::set<std::string>& known() const { return known_; }

  /// The shortest that no other series has, too.
  std::string of(const std::string& series) const {
    for (std::size_t i = 0; i < kForms.size(); ++i) {
      std::string name = kForms[i](series);
      if (!name.empty() && uses_[i].at(name) == 1) return name;
    }
    return path_of_series(series);
  }

  /// Those that a name stands for, by the first kind of name for which there is any.
  std::set<std::string> named(const std::string& name, const RankFiles& found) const {
    std::set<std::string> out;
    const auto take_if = [&](const auto& fits) {
      std::copy_if(known_.begin(), known_.end(), std::inserter(out, out.end()), fits);
      return !out.empty();
    };
    if (take_if([&](const std::string& series) { return of(series) == name; })) return out;
    for (const auto& form : kForms) {
      if (take_if([&](const std::string& series) { return form(series) == name; })) return out;
    }
    // As one rank's file has it, with the number of the rank.
    for (const FoundFile& file : found.files) {
      const std::string own = with_number(prefix_of_series(file.series), file.rank);
      if (own == name) out.insert(file.series);
    }
    return out;
  }

  /// Those whose names match: with a star, the user states that they are one series.
  std::set<std::string> matched(const std::string& glob) const {
    std::set<std::string> out;
    for (const std::string& series : known_) {
      const bool fits = glob_match(glob, of(series)) ||
                        glob_match(glob, prefix_of_series(series)) ||
                        glob_match(glob, path_of_series(series));
      if (fits) out.insert(series);
    }
    return out;
  }

 private:
  using Form = std::string (*)(const std::string& series);
  static constexpr std::array<Form, 3> kForms{
      [](const std::string& series) { return without_rank_at_end(prefix_of_series(series)); },
      [](const std::string& series) { return prefix_of_series(series); },
      [](const std::string& series) { return path_of_series(series); },
  };

  static std::string with_number(std::string prefix, Rank rank) {
    for (std::size_t at = prefix.find(kRankPlace); at != std::string::npos;
         at = prefix.find(kRankPlace)) {
      prefix.replace(at, kRankPlace.size(), to_string(rank));
    }
    return prefix;
  }

  std::set<std::string> known_;
  std::array<std::map<std::string, std::size_t>, kForms.size()> uses_;  ///< of each name
};

bool is_glob(const std::string& text) {
  return text.find_first_of("*?") != std::string::npos;
}

/// "--src-prefix net", ready to paste.
std::string choice(const std::string& name, const std::string& option) {
  const bool like_option = name.starts_with('-');
  return option + (like_option ? "=" : " ") + shell_word(name);
}

std::vector<std::string> names_of(const std::vector<SeriesInfo>& all) {
  std::vector<std::string> names;
  for (const SeriesInfo& series : all) names.push_back(series.name);
  return names;
}

/// The series that the options mean.
std::set<std::string> wanted_series(const std::filesystem::path& root,
                                    const CheckpointOptions& options, const SourceTreePtr& tree,
                                    const RankFiles& found, const SeriesNames& names) {
  const auto all = [&] { return describe_series(found, tree); };
  if (options.prefix.empty()) {
    std::set<std::string> ordinary;
    for (const std::string& series : names.known()) {
      if (!is_breakpoint_series(series)) ordinary.insert(series);
    }
    if (ordinary.empty()) ordinary = names.known();
    if (ordinary.size() <= 1) return ordinary;
    throw several_series(root, all(), options.prefix_option);
  }
  std::set<std::string> chosen = names.named(options.prefix, found);
  if (chosen.empty() && is_glob(options.prefix)) {
    chosen = names.matched(options.prefix);
    if (!chosen.empty()) return chosen;
  }
  if (chosen.size() == 1) return chosen;
  if (chosen.size() > 1) throw several_series(root, all(), options.prefix_option);
  const std::vector<std::string> known = names_of(all());
  const std::optional<std::string> near = near_name(options.prefix, known);
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + printable(name);
  throw Error(ErrorKind::kMissing, "has no files with the prefix '" + printable(options.prefix) +
                                       "'; available: " + list)
      .in_file(root.string())
      .hint(near ? "did you mean " + choice(*near, options.prefix_option) + "?"
                 : "choose one with " + options.prefix_option);
}

void leave_only(const std::set<std::string>& chosen, RankFiles& found) {
  std::set<Rank> others;
  for (const FoundFile& file : found.files) others.insert(file.rank);
  const auto is_other = [&](const FoundFile& file) { return !chosen.contains(file.series); };
  std::erase_if(found.files, is_other);
  std::erase_if(found.unfinished, is_other);
  for (const FoundFile& file : found.files) others.erase(file.rank);
  found.ranks_of_other_series = std::move(others);
}

/// What is beside the chosen series without being one to choose.
std::vector<std::string> warnings_of(const std::vector<SeriesInfo>& all, const std::string& chosen,
                                     const CheckpointOptions& options) {
  std::vector<std::string> warnings;
  for (const SeriesInfo& series : all) {
    if (!series.is_breakpoint || series.name == chosen || !options.prefix.empty()) continue;
    warnings.push_back(printable(series.newest_file) +
                       ", saved when a run broke, is not used: " + series_words(series) +
                       "; to read it, give " + choice(series.name, options.prefix_option));
  }
  return warnings;
}

/// Files of runs that have finished none yet.
std::optional<std::string> being_written(const RankFiles& found, const SeriesNames& names) {
  std::set<std::string> others;
  for (const FoundFile& file : found.unfinished) {
    if (!names.known().contains(file.series)) others.insert(prefix_of_series(file.series));
  }
  if (others.empty()) return std::nullopt;
  return "files of another run are being written, and were left out: " +
         name_list({others.begin(), others.end()});
}

}  // namespace

std::vector<SeriesInfo> describe_series(const RankFiles& found, const SourceTreePtr& tree) {
  const SeriesNames names(found);
  struct Seen {
    std::set<std::string, OlderStep> steps;
    std::set<Rank> ranks;
    const FoundFile* newest = nullptr;
  };
  std::map<std::string, Seen> by_series;
  for (const FoundFile& file : found.files) {
    Seen& seen = by_series[file.series];
    if (!file.step.empty()) seen.steps.insert(file.step);
    seen.ranks.insert(file.rank);
    const bool newer =
        seen.newest == nullptr || std::is_gt(compare_steps(file.step, seen.newest->step)) ||
        (std::is_eq(compare_steps(file.step, seen.newest->step)) && file.rank < seen.newest->rank);
    if (newer) seen.newest = &file;
  }
  std::vector<SeriesInfo> all;
  for (const auto& [series, seen] : by_series) {
    SeriesInfo info;
    info.name = names.of(series);
    info.is_breakpoint = is_breakpoint_series(series);
    info.steps.assign(seen.steps.begin(), seen.steps.end());
    info.ranks.assign(seen.ranks.begin(), seen.ranks.end());
    info.newest_file = seen.newest->path.filename().string();
    info.mtime_ns = known_mtime_ns(seen.newest->path, tree);
    all.push_back(std::move(info));
  }
  std::stable_sort(all.begin(), all.end(), [](const SeriesInfo& a, const SeriesInfo& b) {
    return a.mtime_ns > b.mtime_ns;
  });
  return all;
}

std::string series_words(const SeriesInfo& series) {
  std::string words = series.steps.empty() ? "no step" : "step " + series.steps.back();
  if (series.mtime_ns != 0) words += " of " + utc_time(series.mtime_ns);
  return words + " on " + rank_words(series.ranks);
}

Error several_series(const std::filesystem::path& root, const std::vector<SeriesInfo>& all,
                     const std::string& option) {
  constexpr std::size_t kShown = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(all.size(), kShown); ++i) {
    list += (list.empty() ? "" : ", ") + choice(all[i].name, option) + " (" + series_words(all[i]) +
            ")";
  }
  if (all.size() > kShown) list += " and " + std::to_string(all.size() - kShown) + " more";
  return Error(ErrorKind::kBadInput,
               "has files of " + counted(all.size(), "run") + " or models, which are never mixed")
      .in_file(root.string())
      .hint("choose one: " + list);
}

SeriesChoice choose_series(const std::filesystem::path& root, const CheckpointOptions& options,
                           const SourceTreePtr& tree, RankFiles& found) {
  const SeriesNames names(found);
  const std::set<std::string> chosen = wanted_series(root, options, tree, found, names);
  SeriesChoice out;
  out.name = chosen.size() == 1 ? names.of(*chosen.begin()) : options.prefix;
  if (names.known().size() > chosen.size()) {
    out.warnings = warnings_of(describe_series(found, tree), out.name, options);
  }
  if (auto warning = being_written(found, names)) out.warnings.push_back(std::move(*warning));
  leave_only(chosen, found);
  return out;
}

std::optional<std::string> ranks_without(const std::string& series, const RankFiles& found) {
  const std::set<Rank>& others = found.ranks_of_other_series;
  if (others.empty()) return std::nullopt;
  return rank_words({others.begin(), others.end()}) + " missing: no file of " + printable(series) +
         " there, only of other runs or models";
}

std::vector<SeriesInfo> find_series(const std::filesystem::path& source,
                                    const CheckpointOptions& given) {
  const CheckpointOptions options = listed_once(source, given);
  if (find_described_steps(source, options)) return {};
  const SourceFiles files = find_all_files(source, options);
  if (files.pattern.empty()) return {};
  return describe_series(files.found, source_tree(source, options));
}

std::string chosen_series(const std::filesystem::path& source, const CheckpointOptions& given) {
  const CheckpointOptions options = listed_once(source, given);
  if (find_described_steps(source, options)) return {};
  return find_source_files(source, options).series;
}

void refuse_prefix(const std::filesystem::path& source, const CheckpointOptions& options,
                   const std::string& what) {
  if (options.prefix.empty()) return;
  throw Error(ErrorKind::kUsage, options.prefix_option + " " + shell_word(options.prefix) +
                                     " chooses among the files of ranks, but the source is " + what)
      .in_file(source.string())
      .hint("leave it out");
}

}  // namespace reshardfs
