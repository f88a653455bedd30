// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/items/item_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/items/item_copies.h"
#include "checkpoint/recognition.h"
#include "checkpoint/torch/archive_folder.h"
#include "checkpoint/torch/fsdp_set.h"
#include "format/foreign_content.h"
#include "format/torch/torch_save.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "storage/location.h"
#include "storage/small_file.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostItemTable = 1ULL << 30U;
constexpr std::string_view kItemExtension = ".pt";
/// Items of a directory without a table that are looked into: a job has a handful.
constexpr std::size_t kMostItems = 16;
/// Directories between a table and a file that it names.
constexpr int kMostAbove = 4;

/// The files of items by their ranks.
using NamesByItem = std::map<std::string, std::map<std::int64_t, std::string>>;

/// "model", 3 and ".pt" of "model_3.pt".
struct NameParts {
  std::string item{};
  std::int64_t rank = 0;
  std::string_view extension{};
};

std::optional<NameParts> parts_of_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view stem = name.substr(0, dot);
  const std::size_t mark = stem.rfind('_');
  if (mark == std::string_view::npos || mark == 0) return std::nullopt;
  const auto rank = parse_number(stem.substr(mark + 1));
  if (!rank || std::to_string(*rank) != stem.substr(mark + 1)) return std::nullopt;
  return NameParts{std::string(stem.substr(0, mark)), *rank, name.substr(dot)};
}

/// Of items with a file of rank 0; others are of other programs.
NamesByItem list_items(const std::vector<DirectoryEntry>& entries) {
  NamesByItem items;
  for (const DirectoryEntry& entry : entries) {
    const auto parsed = entry.is_regular ? parse_item_file(entry.name) : std::nullopt;
    if (parsed) items[parsed->first].emplace(parsed->second, entry.name);
  }
  std::erase_if(items, [](const auto& item) { return !item.second.contains(0); });
  return items;
}

bool is_file_there(const fs::path& path, const SourceTreePtr& tree) {
  return path_kind(path, tree) == PathKind::kOther;
}

/// nullopt: nothing of the directory is of the program.
std::optional<SmallFile> item_table(const fs::path& directory, const SourceTreePtr& tree) {
  if (!is_file_there(directory / kItemTable, tree)) return std::nullopt;
  SmallFile file = open_small_file(directory / kItemTable, kMostItemTable, tree);
  if (is_item_table(file.content)) return file;
  if (list_items(list_directory(directory, tree)).empty()) return std::nullopt;
  return file;
}

TorchSave save_in(const fs::path& path, const SourceTreePtr& tree) {
  return read_archive(*open_file(path, tree), [](const TorchArchive& archive) {
    return read_torch_save(archive, {DTensors::kPlaced, /*may_lack_tensors=*/true});
  });
}

/// Whether the key selects in the item, or the item is below it.
bool is_selected(const std::string& item, const std::string& key) {
  return key.empty() || item == key || key.starts_with(item + ".") || item.starts_with(key + ".");
}

class FileFinder {
 public:
  FileFinder(const fs::path& directory, const SourceTreePtr& tree)
      : directory_(directory), tree_(tree), entries_(list_directory(directory, tree)) {
    for (const DirectoryEntry& entry : entries_) {
      if (entry.is_regular) names_.emplace(entry.name, entry.is_link);
    }
  }

  ItemFiles find(const std::string& state_key) {
    const NamesByItem found = list_items(entries_);
    if (auto table = item_table(directory_, tree_)) {
      take_table(std::move(*table));
    } else {
      for (const auto& [item, ranks] : found) {
        out_.world_size = std::max(out_.world_size, ranks.rbegin()->first + 1);
      }
    }
    for (const auto& [item, ranks] : found) take_item(item, ranks);
    std::set<std::string> used;
    for (const SavedItem& item : out_.items) {
      for (const ItemLayout& layout : item.layouts) used.insert(layout.file);
    }
    take_others(used);
    select(state_key);
    require_all();
    return std::move(out_);
  }

 private:
  void take_table(SmallFile file) {
    out_.has_table = true;
    try {
      ItemTable table = read_item_table(std::move(file.content));
      out_.world_size = table.world_size;
      out_.items = std::move(table.items);
    } catch (Error& error) {
      throw error.in_file((directory_ / kItemTable).string())
          .hint(
              "copy the checkpoint again; torch_checkpointing writes plain values to this file, "
              "and nothing else is read");
    }
    out_.stated = out_.items.size();
  }

  const SavedItem* stated(const std::string& name) const {
    const auto item = std::find_if(out_.items.begin(), out_.items.end(),
                                   [&](const SavedItem& one) { return one.name == name; });
    return item == out_.items.end() ? nullptr : &*item;
  }

  /// Every rank writes every item, and no others do.
  void take_item(const std::string& name, const std::map<std::int64_t, std::string>& ranks) {
    if (const auto& [rank, file] = *ranks.rbegin(); rank >= out_.world_size) {
      throw Error(ErrorKind::kBadInput, "has '" + printable(file) + "', but " + kItemTable +
                                            " states a world_size of " +
                                            std::to_string(out_.world_size))
          .in_file(directory_.string())
          .hint("keep the files of one save");
    }
    if (stated(name) != nullptr) return;
    SavedItem& item = out_.items.emplace_back();
    item.name = name;
    for (std::int64_t rank = 0; rank < out_.world_size; ++rank) {
      item.layouts.push_back({item_file(name, rank), ItemFormat::kTorch});
      if (item.layouts.size() > ranks.size() + kMostNamedMissing) break;  // the number may be any
    }
  }

  /// Texts and bytes, such as those of items with a layout that no table has.
  void take_others(const std::set<std::string>& used) {
    for (const SavedItem& item : out_.items) {
      const ItemLayout& first = item.layouts.front();
      if (first.format == ItemFormat::kJson || first.format == ItemFormat::kRaw) {
        out_.others.emplace_back(item.name, first.file);
      }
    }
    for (const auto& [name, is_link] : names_) {
      const auto parts = parts_of_name(name);
      const bool is_first = parts && parts->rank == 0 && parts->extension != kItemExtension;
      if (!is_first || used.contains(name) || stated(parts->item) != nullptr) continue;
      if (has_checkpoint_name(name) && is_checkpoint_content(*open_file(directory_ / name, tree_)))
        continue;  // what lies beside a set and is not read is named elsewhere
      out_.others.emplace_back(parts->item, name);
    }
  }

  void select(const std::string& key) {
    const auto is_other = [&](const SavedItem& item) {
      const ItemFormat format = item.layouts.front().format;
      return !is_selected(item.name, key) || format == ItemFormat::kJson ||
             format == ItemFormat::kRaw;
    };
    std::vector<std::string> names;
    std::vector<SavedItem> kept;
    std::size_t stated = 0;
    for (std::size_t i = 0; i < out_.items.size(); ++i) {
      names.push_back(out_.items[i].name);
      if (is_other(out_.items[i])) continue;
      if (i < out_.stated) ++stated;
      kept.push_back(std::move(out_.items[i]));
    }
    out_.items = std::move(kept);
    out_.stated = stated;
    if (!out_.items.empty() || key.empty()) return;
    throw Error(ErrorKind::kUsage, "has no item '" + printable(key) + "'")
        .in_file(directory_.string())
        .hint("its items are " + name_list(names));
  }

  bool has(const std::string& file) const {
    if (file.find('/') == std::string::npos) return names_.contains(file);
    return is_file_there(directory_ / file, tree_);
  }

  void require_all() const {
    std::vector<std::string> missing;
    std::size_t count = 0;
    for (const SavedItem& item : out_.items) {
      for (const ItemLayout& layout : item.layouts) {
        ++count;
        if (!has(layout.file)) missing.push_back(layout.file);
        require_no_link(layout.file);
      }
    }
    if (missing.empty()) return;
    throw Error(ErrorKind::kMissing,
                "lacks " + std::to_string(missing.size()) + " of " + counted(count, "file") +
                    " that " + counted(static_cast<std::size_t>(out_.world_size), "rank") +
                    " saved: " + name_list(missing))
        .in_file(directory_.string())
        .hint("bring the files of all ranks from one save");
  }

  /// The table names its files, and whoever made it may not choose what else of the machine is
  /// read.
  void require_no_link(const std::string& file) const {
    const auto name = names_.find(file);
    if (name != names_.end() && name->second && refuses_links(tree_)) {
      throw link_refused(directory_ / file);
    }
    if (!out_.has_table || unrecorded(tree_) || is_url(directory_)) return;
    std::error_code failed;
    const auto top = fs::canonical(directory_, failed);
    const auto target = fs::canonical(directory_ / file, failed);
    if (failed || is_inside(target, top)) return;
    throw Error(ErrorKind::kBadInput, "is a link that leads out of the directory of " +
                                          std::string(kItemTable) + ", which names it")
        .in_file((directory_ / file).string());
  }

  static constexpr std::size_t kMostNamedMissing = 16;

  const fs::path& directory_;
  const SourceTreePtr& tree_;
  std::vector<DirectoryEntry> entries_;
  std::map<std::string, bool> names_;  ///< of files, and whether they are links
  ItemFiles out_;
};

[[noreturn]] void refuse_named_part(const fs::path& part, const fs::path& directory) {
  throw Error(ErrorKind::kBadInput,
              "is a part of a checkpoint that several ranks saved with torch_checkpointing: its "
              "tensors are slices")
      .in_file(part.string())
      .needs(Need::kSource)
      .hint("name the directory of the checkpoint, " + printable(directory.string()) +
            ", as the source");
}

/// Whether the table of a directory names the path, or files in it, and others of more ranks.
bool names_part(const fs::path& directory, const fs::path& part) {
  const auto table = item_table(directory, nullptr);
  if (!table) return false;
  const ItemTable read = read_item_table(table->content);
  const std::string name = part.lexically_relative(directory).string();
  return read.world_size > 1 &&
         std::any_of(read.items.begin(), read.items.end(), [&](const SavedItem& item) {
           return std::any_of(item.layouts.begin(), item.layouts.end(), [&](const auto& layout) {
             return layout.file == name || layout.file.starts_with(name + "/");
           });
         });
}

/// Of a file that no table names.
bool is_slice(const fs::path& file) {
  if (!parse_item_file(file.filename().string())) return false;
  const TorchSave saved = save_in(file, nullptr);
  const bool has_parts =
      std::any_of(saved.places.begin(), saved.places.end(),
                  [](const auto& place) { return place.second.sizes != place.second.full_shape; });
  return has_parts && has_item_files(file.parent_path(), nullptr);
}

}  // namespace

std::optional<std::pair<std::string, std::int64_t>> parse_item_file(std::string_view name) {
  auto parts = parts_of_name(name);
  if (!parts || parts->extension != kItemExtension || fsdp_world_size(name)) return std::nullopt;
  return std::pair(std::move(parts->item), parts->rank);
}

bool has_item_table(const fs::path& directory, const SourceTreePtr& tree) {
  return item_table(directory, tree).has_value();
}

bool has_item_files(const fs::path& directory, const SourceTreePtr& tree) {
  bool is_equal = false;
  const NamesByItem items = list_items(list_directory(directory, tree));
  if (items.size() > kMostItems) return false;
  for (const auto& [item, ranks] : items) {
    std::optional<TorchSave> first;
    for (const auto& [rank, name] : ranks) {
      try {
        TorchSave saved = save_in(directory / name, tree);
        if (!saved.places.empty()) return true;
        if (saved.tensors.empty()) break;
        if (!first) {
          first = std::move(saved);
          continue;
        }
        const ByteSourcePtr one = open_file(directory / ranks.begin()->second, tree);
        const ByteSourcePtr other = open_file(directory / name, tree);
        if (!begin_equally({*one, *first}, {*other, saved})) return false;
        is_equal = true;
        break;
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kIo) throw;
        if (first) break;
      }
    }
  }
  return is_equal;
}

ItemFiles find_item_files(const fs::path& directory, const SourceTreePtr& tree,
                          const std::string& state_key) {
  return FileFinder(directory, tree).find(state_key);
}

void refuse_item_part(const fs::path& source) {
  if (is_url(source)) return;
  bool is_part = false;
  fs::path path = fs::absolute(source).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  fs::path above = path;
  try {
    for (int i = 0; i < kMostAbove && !is_part && above.has_relative_path(); ++i) {
      above = above.parent_path();
      is_part = names_part(above, path);
    }
    if (!is_part && path_kind(path) == PathKind::kOther && is_slice(path)) {
      above = path.parent_path();
      is_part = true;
    }
  } catch (const Error&) {
    return;  // the source itself tells what is wrong
  }
  if (is_part) refuse_named_part(source, above);
}

}  // namespace reshardfs
