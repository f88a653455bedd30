// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/rank_files.h"

#include <map>
#include <utility>

#include "reshardfs/error.h"

#include "checkpoint/step.h"
#include "storage/directory.h"

namespace reshardfs {
namespace {

class Walk {
 public:
  explicit Walk(const PathPattern& pattern) : pattern_(pattern) {}

  void directory(const std::filesystem::path& path, std::size_t component,
                 const PathCaptures& captures);
  RankFiles take() && { return std::move(found_); }

 private:
  void add_file(const std::filesystem::path& path, const PathCaptures& captures);

  const PathPattern& pattern_;
  RankFiles found_;
};

void Walk::directory(const std::filesystem::path& path, std::size_t component,
                     const PathCaptures& captures) {
  const bool last = component + 1 == pattern_.depth();
  std::map<PathCaptures, std::string> seen;
  for (const DirectoryEntry& entry : list_directory(path)) {
    if (entry.is_directory == last) continue;
    const auto matched = pattern_.match(component, entry.name, captures);
    if (!matched) continue;
    if (last) {
      add_file(path / entry.name, *matched);
      continue;
    }
    if (pattern_.captures_rank(component)) {
      const auto [first, is_new] = seen.emplace(*matched, entry.name);
      if (!is_new) {
        throw Error(ErrorKind::kBadInput, "the directories '" + printable(first->second) +
                                              "' and '" + printable(entry.name) +
                                              "' both stand for rank " +
                                              std::to_string(*matched->rank))
            .in_file(path.string())
            .hint("remove one, or say which files count with --src-pattern");
      }
      found_.ranks_with_directory.insert(*matched->rank);
    }
    directory(path / entry.name, component + 1, *matched);
  }
}

void Walk::add_file(const std::filesystem::path& path, const PathCaptures& captures) {
  const std::string name = path.filename().string();
  if (name.ends_with(".tmp")) return;  // MindSpore renames it when it is complete
  std::string step = pattern_.has_step() ? captures.step : step_in_file_name(name);
  found_.files.push_back({*captures.rank, std::move(step), path});
}

}  // namespace

RankFiles find_rank_files(const std::filesystem::path& root, const PathPattern& pattern) {
  Walk walk(pattern);
  walk.directory(root, 0, {});
  return std::move(walk).take();
}

}  // namespace reshardfs
