// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/items/item_recognition.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "checkpoint/items/item_copies.h"
#include "checkpoint/items/item_table.h"
#include "checkpoint/torch/archive_folder.h"
#include "checkpoint/torch/fsdp_set.h"
#include "format/torch/torch_save.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostItemTable = 1ULL << 30U;
/// Items of a directory without a table that are looked into: a job has a handful.
constexpr std::size_t kMostItems = 16;
/// Directories between a table and a file that it names.
constexpr int kMostAbove = 4;

/// Files of FSDP trainers have such names, too.
bool is_of_item(const ItemFileName& parsed, std::string_view name) {
  return parsed.is_torch() && !fsdp_world_size(name);
}

TorchSave save_in(const fs::path& path, const SourceTreePtr& tree) {
  return read_archive(*open_file(path, tree), [](const TorchArchive& archive) {
    return read_torch_save(archive, {DTensors::kPlaced, /*may_lack_tensors=*/true});
  });
}

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
  const auto table = find_item_table(directory, nullptr);
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
  const std::string name = file.filename().string();
  const auto parsed = parse_item_file(name);
  if (!parsed || !is_of_item(*parsed, name)) return false;
  const TorchSave saved = save_in(file, nullptr);
  const bool has_parts =
      std::any_of(saved.places.begin(), saved.places.end(),
                  [](const auto& place) { return place.second.sizes != place.second.full_shape; });
  return has_parts && has_item_files(file.parent_path(), nullptr);
}

}  // namespace

std::optional<ItemFileName> parse_item_file(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view stem = name.substr(0, dot);
  const std::size_t mark = stem.rfind('_');
  if (mark == std::string_view::npos || mark == 0) return std::nullopt;
  const auto rank = parse_number(stem.substr(mark + 1));
  if (!rank || std::to_string(*rank) != stem.substr(mark + 1)) return std::nullopt;
  return ItemFileName{std::string(stem.substr(0, mark)), *rank, name.substr(dot)};
}

NamesByItem list_items(const std::vector<DirectoryEntry>& entries) {
  NamesByItem items;
  for (const DirectoryEntry& entry : entries) {
    const auto parsed = entry.is_regular ? parse_item_file(entry.name) : std::nullopt;
    if (parsed && is_of_item(*parsed, entry.name)) {
      items[parsed->item].emplace(parsed->rank, entry.name);
    }
  }
  // A file of rank 0 may be missing, if other items state that there are its ranks.
  std::int64_t last = -1;
  for (const auto& [item, ranks] : items) {
    if (ranks.contains(0)) last = std::max(last, ranks.rbegin()->first);
  }
  std::erase_if(items, [&](const auto& item) {
    const auto& ranks = item.second;
    if (ranks.contains(0)) return false;
    return ranks.rbegin()->first > last || (ranks.size() < 2 && last > 1);
  });
  return items;
}

std::optional<SmallFile> find_item_table(const fs::path& directory, const SourceTreePtr& tree) {
  if (path_kind(directory / kItemTable, tree) != PathKind::kOther) return std::nullopt;
  SmallFile file = open_small_file(directory / kItemTable, kMostItemTable, tree);
  if (is_item_table(file.content)) return file;
  if (list_items(list_directory(directory, tree)).empty()) return std::nullopt;
  return file;
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
