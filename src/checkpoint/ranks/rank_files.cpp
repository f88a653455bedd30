// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/rank_files.h"

#include <map>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/series/series_names.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/unfinished_names.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

constexpr std::string_view kMetaName = "meta.json";

class Walk {
 public:
  Walk(const PathPattern& pattern, const SourceTreePtr& tree) : pattern_(pattern), tree_(tree) {}

  void directory(const std::filesystem::path& path, std::size_t component,
                 const PathCaptures& captures);
  RankFiles take() && { return std::move(found_); }

 private:
  /// @return whether it is one of the set's.
  bool file(const std::filesystem::path& path, std::size_t component, const PathCaptures& captures);
  void link(const std::filesystem::path& path);
  void foresee(const std::filesystem::path& path, const std::vector<DirectoryEntry>& entries,
               std::size_t component, const PathCaptures& captures) const;
  bool unfinished(const std::filesystem::path& path, const UnfinishedName& unfinished,
                  std::size_t component, const PathCaptures& captures);
  FoundFile describe(const std::filesystem::path& path, const std::string& name,
                     const PathCaptures& captures) const;

  const PathPattern& pattern_;
  const SourceTreePtr& tree_;
  RankFiles found_;
};

void Walk::directory(const std::filesystem::path& path, std::size_t component,
                     const PathCaptures& captures) {
  const bool last = component + 1 == pattern_.depth();
  std::map<PathCaptures, std::string> seen;
  const std::vector<DirectoryEntry> entries = list_directory(path, tree_);
  if (tree_ && !last) foresee(path, entries, component, captures);
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_directory == last) continue;
    if (last) {
      if (file(path / entry.name, component, captures) && entry.is_link) link(path / entry.name);
      continue;
    }
    const auto matched = pattern_.match(component, entry.name, captures);
    if (!matched) continue;
    if (pattern_.captures_rank(component)) {
      const auto [first, is_new] = seen.emplace(*matched, entry.name);
      if (!is_new) {
        throw Error(ErrorKind::kBadInput, "the directories '" + printable(first->second) +
                                              "' and '" + printable(entry.name) +
                                              "' both stand for rank " + to_string(*matched->rank))
            .in_file(path.string())
            .hint("remove one, or select the files with --src-pattern");
      }
      found_.ranks_with_directory.insert(*matched->rank);
    }
    if (entry.is_link) link(path / entry.name);
    directory(path / entry.name, component + 1, *matched);
  }
}

void Walk::foresee(const std::filesystem::path& path, const std::vector<DirectoryEntry>& entries,
                   std::size_t component, const PathCaptures& captures) const {
  std::vector<std::filesystem::path> directories;
  for (const DirectoryEntry& entry : entries) {
    const bool taken = entry.is_directory && pattern_.match(component, entry.name, captures);
    if (taken) directories.push_back(path / entry.name);
  }
  tree_->foresee_lists(directories);
}

void Walk::link(const std::filesystem::path& path) {
  if (refuses_links(tree_)) throw link_refused(path);
  found_.links.push_back(path);
}

bool Walk::file(const std::filesystem::path& path, std::size_t component,
                const PathCaptures& captures) {
  const std::string name = path.filename().string();
  if (const auto other = unfinished_name(name))
    return unfinished(path, *other, component, captures);
  const bool meta = name == kMetaName && captures.rank;
  if (meta) found_.meta_files.emplace(*captures.rank, path);
  const auto matched = pattern_.match(component, name, captures);
  if (matched) found_.files.push_back(describe(path, name, *matched));
  return meta || matched;
}

/// MindSpore writes "net-9_50.tmp" and renames it to "net-9_50.ckpt" when it is complete; other
/// writers append.
bool Walk::unfinished(const std::filesystem::path& path, const UnfinishedName& unfinished,
                      std::size_t component, const PathCaptures& captures) {
  const std::string extension = std::filesystem::path(pattern_.text()).extension().string();
  // NOLINTNEXTLINE(readability-use-anyofallof): it takes the file that it finds
  for (const std::string& name : {unfinished.finished, unfinished.finished + extension}) {
    const auto matched = pattern_.match(component, name, captures);
    if (!matched) continue;
    if (unfinished.in_place) throw still_downloaded(path.parent_path() / unfinished.finished);
    found_.unfinished.push_back(describe(path, name, *matched));
    return true;
  }
  return false;
}

FoundFile Walk::describe(const std::filesystem::path& path, const std::string& name,
                         const PathCaptures& captures) const {
  const RankPartName segment = rank_part_name(without_breakpoint(name));
  std::string step = pattern_.has_step() ? captures.step
                     : segment.has_step  ? step_in_file_name(segment.whole)
                                         : std::string();
  FoundFile file{*captures.rank, std::move(step), path, segment.part, tree_};
  file.series = series_of_shape(captures.shape);
  return file;
}

}  // namespace

RankFiles find_rank_files(const std::filesystem::path& root, const PathPattern& pattern,
                          const SourceTreePtr& tree) {
  Walk walk(pattern, tree);
  PathCaptures known;
  if (!pattern.has_rank()) known.rank = Rank();  // of one process
  walk.directory(root, 0, known);
  RankFiles found = std::move(walk).take();
  take_ranks_out_of_series(found);
  return found;
}

}  // namespace reshardfs
