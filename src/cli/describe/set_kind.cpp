// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/set_kind.h"

#include <fmt/format.h>

#include "base/text/file_name.h"
#include "base/text/text.h"
#include "checkpoint/ranks/discovery.h"
#include "checkpoint/set_format.h"
#include "storage/local/directory.h"
#include "storage/near_path.h"

namespace reshardfs {
namespace {

std::string file_words(const CheckpointSet& set) {
  const std::string_view name = set.format().name;
  if (name == "torch") return "torch.save";
  return name == "ckpt" ? "MindSpore's .ckpt" : std::string(name);
}

std::size_t count_ranks(const CheckpointSet& set) {
  std::size_t count = 0;
  const RankFile* before = nullptr;
  for (const RankFile& file : set.files()) {
    if (before == nullptr || before->rank != file.rank) ++count;
    before = &file;
  }
  return count;
}

}  // namespace

SetKind kind_of(const std::filesystem::path& source, const CheckpointOptions& options,
                const CheckpointSet& set) {
  const std::string files = file_words(set);
  const bool is_index = is_index_name(source.filename().string());
  if (path_kind(source, options.listed) != PathKind::kDirectory && !is_index) {
    return {std::string(kOneFile), "one file, " + files};
  }
  if (const SetFormat* format = set.described_by()) {
    return {std::string(format->kind), std::string(format->words)};
  }
  const SourceFiles found = find_all_files(source, options);
  if (found.name_map) {
    return {std::string(kWholeModel), fmt::format("a whole model in {} of {}, which {} lists",
                                                  counted(set.files().size(), "file"), files,
                                                  found.name_map->map_file.filename().string())};
  }
  if (found.is_whole) {
    return {std::string(kWholeModel),
            fmt::format("a whole model in {} of {}, which count each other",
                        counted(set.files().size(), "file"), files)};
  }
  if (found.pattern.empty()) {
    return {std::string(kOneFile),
            fmt::format("a directory with one file, {}, of {}",
                        set.files().front().path.filename().string(), files)};
  }
  return {std::string(kRankFiles),
          fmt::format("a file or more for each of {}, {} ({})", counted(count_ranks(set), "rank"),
                      files, found.pattern)};
}

}  // namespace reshardfs
