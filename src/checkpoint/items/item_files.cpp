// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/items/item_files.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <system_error>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/items/item_recognition.h"
#include "checkpoint/recognition.h"
#include "format/foreign_content.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

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
    if (auto table = find_item_table(directory_, tree_)) {
      take_table(std::move(*table));
    } else {
      for (const auto& [item, ranks] : found) {
        out_.world_size = std::max(out_.world_size, ranks.rbegin()->first + 1);
      }
    }
    for (const SavedItem& item : out_.items) {
      for (const ItemLayout& layout : item.layouts) stated_files_.insert(layout.file);
    }
    for (const auto& [item, ranks] : found) take_item(item, ranks);
    take_others();
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

  /// Every rank writes every item, and no others do. A layout may give the files of one item the
  /// name of another.
  void take_item(const std::string& name, const std::map<std::int64_t, std::string>& ranks) {
    const auto& [rank, file] = *ranks.rbegin();
    if (rank >= out_.world_size && !stated_files_.contains(file)) {
      throw Error(ErrorKind::kBadInput, "has '" + printable(file) + "', but " + kItemTable +
                                            " states a world_size of " +
                                            std::to_string(out_.world_size))
          .in_file(directory_.string())
          .hint("keep the files of one save");
    }
    const bool is_stated = std::any_of(ranks.begin(), ranks.end(), [&](const auto& one) {
      return stated_files_.contains(one.second);
    });
    if (is_stated || stated(name) != nullptr) return;
    SavedItem& item = out_.items.emplace_back();
    item.name = name;
    for (std::int64_t own = 0; own < out_.world_size; ++own) {
      item.layouts.push_back({item_file(name, own), ItemFormat::kTorch});
      if (item.layouts.size() > ranks.size() + kMostNamedMissing) break;  // the number may be any
    }
  }

  /// Texts and bytes, such as those of items with a layout that no table has.
  void take_others() {
    for (const SavedItem& item : out_.items) {
      const ItemLayout& first = item.layouts.front();
      if (first.format == ItemFormat::kJson || first.format == ItemFormat::kRaw) {
        out_.others.emplace_back(item.name, first.file);
      }
    }
    for (const auto& [name, is_link] : names_) {
      const auto parts = parse_item_file(name);
      const bool is_first = parts && parts->rank == 0 && !parts->is_torch();
      if (!is_first || stated_files_.contains(name) || stated(parts->item) != nullptr) continue;
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
    return path_kind(directory_ / file, tree_) == PathKind::kOther;
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
  std::map<std::string, bool> names_;   ///< of files, and whether they are links
  std::set<std::string> stated_files_;  ///< by the table
  ItemFiles out_;
};

}  // namespace

ItemFiles find_item_files(const fs::path& directory, const SourceTreePtr& tree,
                          const std::string& state_key) {
  return FileFinder(directory, tree).find(state_key);
}

}  // namespace reshardfs
