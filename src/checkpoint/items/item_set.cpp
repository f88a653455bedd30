// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/items/item_set.h"

#include <algorithm>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/items/item_copies.h"
#include "checkpoint/items/item_files.h"
#include "checkpoint/items/item_reader.h"
#include "checkpoint/items/item_recognition.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/set_format.h"
#include "checkpoint/torch/torch_ranks.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// Before the name that the directory gets when all ranks have finished.
constexpr std::string_view kUnfinished = "tmp_";

bool has_items(const fs::path& directory, const SourceTreePtr& tree) {
  return find_item_table(directory, tree) || has_item_files(directory, tree);
}

bool is_item_set(const fs::path& directory, const SourceTreePtr& tree) {
  if (!has_items(directory, tree)) return false;
  const std::string name = directory_name(directory);
  if (!name.starts_with(kUnfinished)) return true;
  throw Error(ErrorKind::kBadInput, "is a save that has not ended: torch_checkpointing calls it '" +
                                        printable(name.substr(kUnfinished.size())) +
                                        "' when all ranks have finished")
      .in_file(directory.string())
      .hint("choose another checkpoint, or wait until this one is saved");
}

std::vector<FoundFile> files_of_ranks(const fs::path& directory, const ItemFiles& files,
                                      const SourceTreePtr& tree) {
  std::vector<FoundFile> found;
  for (std::int64_t rank = 0; rank < files.world_size; ++rank) {
    for (std::size_t i = 0; i < files.items.size(); ++i) {
      const std::string& file = files.items[i].layouts[static_cast<std::size_t>(rank)].file;
      found.push_back({Rank(rank), {}, directory / file, static_cast<std::int64_t>(i), tree});
    }
  }
  return found;
}

/// Files of items that have no tensors are not of the set.
void leave_out_items_without_tensors(TorchRanks& ranks) {
  std::set<std::int64_t> with_tensors;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const TorchSave& saved = ranks.saved(i);
    if (!saved.tensors.empty() || !saved.refused.empty()) with_tensors.insert(ranks.file(i).part);
  }
  ranks.keep([&](const FoundFile& file) { return with_tensors.contains(file.part); });
}

void state_completeness(const ItemFiles& files, Discovery& out) {
  if (files.has_table) {
    out.completeness.grounds.push_back(std::string("the table ") + kItemTable);
    return;
  }
  out.completeness.counted = false;
  const std::string ranks = counted(static_cast<std::size_t>(files.world_size), "rank");
  out.completeness.unstated = "whether " + ranks + " saved all tensors";
  out.completeness.doubts.push_back(std::string("there is no ") + kItemTable + ": at least " +
                                    ranks +
                                    " saved it; if there were more, their tensors are missing");
}

}  // namespace

std::optional<Discovery> discover_items(const fs::path& directory, const CheckpointOptions& options,
                                        const SourceTreePtr& tree) {
  if (!is_item_set(directory, tree)) return std::nullopt;
  if (options.step != kLatestStep) throw no_steps(directory);
  const ItemFiles files = find_item_files(directory, tree, options.state_key);
  std::vector<SavedItemReader> readers;
  readers.reserve(files.items.size());
  for (const SavedItem& item : files.items)
    readers.emplace_back(item, readers.size() < files.stated);
  TorchRanks ranks(directory, options, tree);
  ranks.open(files_of_ranks(directory, files, tree),
             [&](const FoundFile& file, const ByteSource& source) {
               return readers[static_cast<std::size_t>(file.part)].read(file, source);
             });
  refuse_differing_copies(files, ranks);
  leave_out_items_without_tensors(ranks);
  if (ranks.size() == 0) {
    throw Error(ErrorKind::kMissing, "has no tensor").in_file(directory.string());
  }
  Discovery out = ranks.discovery();
  if (options.state_key.empty()) {
    for (const auto& [item, file] : files.others) {
      out.beside.values.push_back({item, "a file of each rank, such as " + printable(file)});
    }
  }
  out.applies_state_key = true;
  state_completeness(files, out);
  return out;
}

std::optional<std::vector<StepInfo>> find_item_steps(const fs::path& directory,
                                                     const SourceTreePtr& tree) {
  if (!is_item_set(directory, tree)) return std::nullopt;
  return std::vector<StepInfo>();
}

bool is_unfinished_item_set(const fs::path& directory, const SourceTreePtr& tree) {
  return directory_name(directory).starts_with(kUnfinished) && has_items(directory, tree);
}

std::optional<std::string> step_of_items(const fs::path& directory, const SourceTreePtr& tree) {
  const std::string name = directory_name(directory);
  const std::size_t before = name.find_last_not_of("0123456789");
  const auto step =
      parse_number(std::string_view(name).substr(before == std::string::npos ? 0 : before + 1));
  if (!step || name.starts_with(kUnfinished)) return std::nullopt;
  if (!has_items(directory, tree)) return std::nullopt;
  return std::to_string(*step);
}

}  // namespace reshardfs
