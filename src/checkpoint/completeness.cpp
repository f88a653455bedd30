// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/completeness.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/text/text.h"
#include "checkpoint/ranks/file_alone.h"
#include "checkpoint/ranks/rank_files.h"
#include "checkpoint/whole/counted_name.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// Files that count each other.
struct CountedFiles {
  const FoundFile* first = nullptr;
  CountedName name{};
  std::set<std::int64_t> indexes{};

  /// Files are counted from 1 on, or from 0.
  std::int64_t first_index() const { return indexes.contains(0) ? 0 : 1; }
  std::int64_t lost() const {
    const bool from_zero = indexes.contains(0) && !indexes.contains(name.count);
    const std::int64_t last = from_zero ? name.count - 1 : name.count;
    return last - first_index() + 1 - static_cast<std::int64_t>(indexes.size());
  }
};

using CountedSeries = std::map<std::tuple<fs::path, std::string, std::string>, CountedFiles>;

CountedSeries counted_series(const std::vector<FoundFile>& files) {
  CountedSeries all;
  for (const FoundFile& file : files) {
    auto name = parse_counted_name(file.path.filename().string());
    if (!name) continue;
    const std::int64_t index = name->index;
    CountedFiles& series = all[{file.path.parent_path(), name->before, name->after}];
    if (series.first == nullptr) {
      series.first = &file;
      series.name = std::move(*name);
    }
    series.indexes.insert(index);
  }
  return all;
}

Error lacking(const CountedFiles& series) {
  constexpr std::size_t kNamed = 5;
  const auto lost = static_cast<std::size_t>(series.lost());
  const fs::path directory = series.first->path.parent_path();
  std::vector<std::string> names;
  bool any_there = false;
  for (std::int64_t i = series.first_index(); names.size() < std::min(lost, kNamed); ++i) {
    if (series.indexes.contains(i)) continue;
    names.push_back(series.name.with_index(i));
    any_there =
        any_there || path_kind(directory / names.back(), series.first->tree) == PathKind::kOther;
  }
  std::string list = name_list(names, kNamed);
  if (lost > names.size()) list += " and " + std::to_string(lost - names.size()) + " more";
  const std::string what =
      "counts " + counted(static_cast<std::size_t>(series.name.count), "file") + ", but " + list +
      (lost == 1 ? " is " : " are ") + (any_there ? "not among those that are read" : "missing");
  return Error(ErrorKind::kMissing,
               "the name of '" + printable(series.first->path.filename().string()) + "' " + what)
      .in_file(directory.string())
      .hint(any_there ? "bring the index that names all files"
                      : "bring the missing files, or name one file as the source to read it alone");
}

}  // namespace

Completeness state_names(const std::vector<FoundFile>& files, const fs::path& source) {
  Completeness out;
  if (files.size() == 1 && files.front().path == source) {
    std::string part = part_words(source);
    if (!part.empty()) out.doubts.push_back(std::move(part));
    out.grounds.emplace_back("one file, as it was named");
    return out;
  }
  std::size_t names = 0;
  const CountedSeries all = counted_series(files);
  for (const auto& [key, series] : all) {
    names += series.indexes.size();
    if (series.lost() > 0) out.missing.push_back(lacking(series));
  }
  if (names > 0 && out.missing.empty()) {
    out.grounds.push_back("counts in " + counted(names, "name"));
    out.counted = all.size() == 1 && names == files.size();
  }
  if (!out.counted) out.unstated = "whether these are all files";
  return out;
}

std::vector<std::string> warnings_of(const Completeness& completeness,
                                     const std::function<bool(const std::string&)>& takes) {
  std::vector<std::string> lines = completeness.doubts;
  for (const Error& difference : completeness.differences) lines.emplace_back(difference.what());
  std::size_t count = 0;
  const OpenShape* first = nullptr;
  for (const OpenShape& open : completeness.open_extents) {
    if (takes && !takes(open.name)) continue;
    if (count++ == 0) first = &open;
  }
  if (count == 0) return lines;
  lines.push_back("unknown " + completeness.unstated + ": '" + printable(first->name) + "' " +
                  to_string(first->shape) +
                  (count == 1 ? "" : " and " + counted(count - 1, "more parameter")) +
                  " would be smaller without the last; a config.json beside them is compared");
  return lines;
}

std::string completeness_words(const Completeness& completeness) {
  if (!completeness.missing.empty() || !completeness.short_parameters.empty()) return {};
  std::string words;
  for (const std::string& ground : completeness.grounds) {
    words += (words.empty() ? "complete, according to " : ", ") + ground;
  }
  if (completeness.unstated.empty()) return words;
  return words + (words.empty() ? "" : "; ") + "unknown " + completeness.unstated;
}

}  // namespace reshardfs
