// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/rank_statement.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/text.h"
#include "checkpoint/ranks/file_alone.h"
#include "checkpoint/ranks/rank_directory_name.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/torch/archive_folder.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// Ranks that have a directory or a file of another step, but none of the files that are taken.
std::vector<Rank> ranks_without_file(const RankFiles& found, const std::vector<FoundFile>& taken) {
  std::set<Rank> without = found.ranks_with_directory;
  for (const FoundFile& file : found.files) without.insert(file.rank);
  for (const Rank rank : found.ranks_of_other_series) without.erase(rank);
  for (const FoundFile& file : taken) without.erase(file.rank);
  return {without.begin(), without.end()};
}

Error no_file(const SourceFiles& files, const std::vector<Rank>& ranks, const fs::path& source,
              const std::string& step) {
  const std::string of_step = step.empty() ? "" : " of " + step_words(step);
  return Error(ErrorKind::kMissing,
               rank_words(ranks) + (ranks.size() == 1 ? " has" : " have") + " no file" + of_step +
                   " that matches " + printable(files.pattern) +
                   ", and without a strategy it is unknown what is missing with it")
      .in_file(source.string())
      .for_rank(ranks.front())
      .hint(
          "bring the missing files, correct --src-pattern, or give the strategy with "
          "--src-strategy");
}

}  // namespace

void state_files(const SourceFiles& files, const fs::path& source, Discovery& out) {
  out.completeness = state_names(out.files, source);
  if (files.pattern.empty()) {
    out.by_contents = state_part;
    return;
  }
  Completeness& statement = out.completeness;
  if (const auto without = ranks_without_file(files.found, out.files); !without.empty()) {
    statement.missing_without_layouts.push_back(no_file(files, without, source, out.step));
  }
  std::set<Rank> ranks;
  for (const FoundFile& file : out.files) ranks.insert(file.rank);
  const std::string name = directory_name(source);
  if (ranks.size() == 1 && parse_rank_directory(name)) {
    statement.doubts_without_layouts.push_back(
        "'" + printable(name) +
        "' is one rank's directory: its tensors may be slices; name the directory above to read "
        "all ranks");
  }
  if (ranks.size() > 1) out.by_contents = state_renamed_files;
}

}  // namespace reshardfs
