// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/items/item_table.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_reader.h"
#include "base/text/numbers.h"
#include "base/text/utf8.h"
#include "checkpoint/items/item_sharding.h"
#include "format/torch/pickle_tree.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMostPathDepth = 4;  ///< of the JSON text: a list of texts and numbers
/// In tables of each version.
constexpr std::string_view kTableWord = "rank_to_layout_info";

[[noreturn]] void refuse_table(const std::string& what) {
  throw Error(ErrorKind::kBadInput, "is no table of torch_checkpointing: " + what)
      .hint("take all files from one save");
}

class ItemTableReader {
 public:
  explicit ItemTableReader(const PickleTree& tree) : tree_(tree), shardings_(tree) {}

  ItemTable read() {
    const PickleValue root = tree_.root();
    if (!root.is(PickleKind::kDict)) refuse_table("it is " + words_of(root));
    const auto world = tree_.integer(tree_.find(root, "world_size"));
    if (!world || *world < 1) refuse_table("it states no world_size");
    out_.world_size = *world;
    const PickleValue version = tree_.find(root, "version");
    const PickleValue metadata = dict(root, "metadata");
    if (version.is(PickleKind::kUnset) || tree_.text(version) == "1.0") {
      read_flat(metadata, dict(root, "rank_to_layout_info_mappings"));
    } else if (tree_.text(version) == "2.0") {
      read_items(metadata);
    } else {
      throw Error(ErrorKind::kUnsupported, "is a table of torch_checkpointing of version " +
                                               words_of(version) +
                                               "; versions 1.0 and 2.0 are known")
          .hint("load it with that release, and save it as a distributed checkpoint of PyTorch");
    }
    require_own_files();
    refuse_equal_names();
    return std::move(out_);
  }

 private:
  std::string words_of(PickleValue value) const {
    if (const auto text = tree_.text(value)) return "'" + printable(std::string(*text)) + "'";
    if (const auto number = tree_.integer(value)) return std::to_string(*number);
    return std::string(kind_words(value.kind()));
  }

  PickleValue dict(PickleValue value, std::string_view key) const {
    const PickleValue found = tree_.find(value, key);
    if (!found.is(PickleKind::kDict))
      refuse_table("it has no dictionary '" + std::string(key) + "'");
    return found;
  }

  /// {ITEM: {"nested_path_to_metadata": {PATH: [GROUP, ...]}, "rank_to_layout_info": {...}}}
  void read_items(PickleValue metadata) {
    tree_.for_each_pair(metadata, [&](PickleValue key, PickleValue value) {
      SavedItem& item = out_.items.emplace_back();
      item.name = item_name(key);
      tree_.for_each_pair(dict(value, "nested_path_to_metadata"),
                          [&](PickleValue path, PickleValue groups) {
                            std::vector<std::string> parts = parts_of(path);
                            item.tensors.push_back(tensor(parts, 0, groups));
                            return true;
                          });
      const auto layouts = by_rank(dict(value, "rank_to_layout_info"), item.name);
      for (std::size_t rank = 0; rank < layouts.size(); ++rank) {
        item.layouts.push_back(layout(layouts[rank], item.name, rank));
      }
      return true;
    });
  }

  /// {[ITEM, KEY, ...]: [GROUP, ...]}, and {RANK: {ITEM: LAYOUT}} beside it.
  void read_flat(PickleValue metadata, PickleValue mappings) {
    const std::vector<PickleValue> ranks = by_rank(mappings, {});
    std::map<std::string, std::size_t> numbers;
    const auto item_of = [&](const std::string& name) -> SavedItem& {
      const auto [known, is_new] = numbers.emplace(name, out_.items.size());
      if (is_new) out_.items.emplace_back().name = name;
      return out_.items[known->second];
    };
    tree_.for_each_pair(metadata, [&](PickleValue path, PickleValue groups) {
      std::vector<std::string> parts = parts_of(path);
      if (parts.empty()) refuse_table("a path of it has no item");
      item_of(parts.front()).tensors.push_back(tensor(parts, 1, groups));
      return true;
    });
    for (const PickleValue rank : ranks) {
      if (!rank.is(PickleKind::kDict)) refuse_table("a rank has no dictionary of its items");
      tree_.for_each_pair(rank, [&](PickleValue key, PickleValue) {
        item_of(item_name(key));
        return true;
      });
    }
    for (SavedItem& item : out_.items) {
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        item.layouts.push_back(layout(tree_.find(ranks[rank], item.name), item.name, rank));
      }
    }
  }

  std::string item_name(PickleValue key) const {
    const auto text = tree_.text(key);
    if (!text || text->empty() || !is_utf8(*text)) refuse_table("an item of it has no name");
    return std::string(*text);
  }

  /// A dictionary of ranks, in their order.
  std::vector<PickleValue> by_rank(PickleValue value, const std::string& item) const {
    const std::string whose = item.empty() ? "" : " of item '" + printable(item) + "'";
    std::map<std::int64_t, PickleValue> found;
    tree_.for_each_pair(value, [&](PickleValue key, PickleValue layout) {
      auto rank = tree_.integer(key);
      if (const auto text = tree_.text(key)) rank = parse_number(*text);
      if (!rank) refuse_table("a rank" + whose + " is " + words_of(key));
      if (!found.emplace(*rank, layout).second) {
        refuse_table("it has rank " + std::to_string(*rank) + whose + " twice");
      }
      return true;
    });
    const auto count = static_cast<std::int64_t>(found.size());
    const bool good = count == out_.world_size && found.begin()->first == 0 &&
                      std::prev(found.end())->first == count - 1;
    if (!good) {
      refuse_table("it states a world_size of " + std::to_string(out_.world_size) + ", but files" +
                   whose + " for " + std::to_string(count) + " ranks" +
                   (found.empty() ? ""
                                  : ", the last of which is " +
                                        std::to_string(std::prev(found.end())->first)));
    }
    std::vector<PickleValue> out;
    out.reserve(found.size());
    for (const auto& [rank, layout] : found) out.push_back(layout);
    return out;
  }

  ItemLayout layout(PickleValue value, const std::string& item, std::size_t rank) const {
    const auto number = static_cast<std::int64_t>(rank);
    if (value.is(PickleKind::kNone) || value.is(PickleKind::kUnset)) {
      return {inside(item_file(item, number)), ItemFormat::kTorch};
    }
    const auto path = tree_.text(tree_.find(value, "file_path"));
    if (!path) {
      refuse_table("it has no file_path of item '" + printable(item) + "' for rank " +
                   std::to_string(number));
    }
    const PickleValue type = tree_.find(tree_.find(value, "serialization_format"), "type");
    return {inside(std::string(*path)), format_of(type, item)};
  }

  ItemFormat format_of(PickleValue type, const std::string& item) const {
    const auto name = tree_.text(type).value_or(std::string_view());
    if (name == "TorchSerialization") return ItemFormat::kTorch;
    if (name == "SafetensorsSerialization") return ItemFormat::kSafetensors;
    if (name == "JsonSerialization") return ItemFormat::kJson;
    if (name == "RawSerialization") return ItemFormat::kRaw;
    throw Error(ErrorKind::kUnsupported, "states the format " + words_of(type) + " for item '" +
                                             printable(item) + "', which is not known");
  }

  /// Whoever made the table may not choose what else of the machine is read.
  static std::string inside(const std::string& text) {
    const std::filesystem::path path(text);
    const bool leads_out =
        std::any_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
    if (text.empty() || text.find('\0') != std::string::npos || path.is_absolute() || leads_out) {
      throw Error(ErrorKind::kBadInput,
                  "names the file '" + printable(text) + "', which is no path in its directory")
          .hint("bring the table that torch_checkpointing wrote");
    }
    return path.lexically_normal().string();
  }

  /// The JSON text of a list of keys.
  std::vector<std::string> parts_of(PickleValue path) const {
    const auto text = tree_.text(path);
    if (!text) refuse_table("a path of it is " + words_of(path));
    std::vector<std::string> parts;
    try {
      JsonReader reader(*text,
                        {.subject = "", .offset = std::nullopt, .max_depth = kMostPathDepth});
      reader.require(JsonKind::kList);
      reader.enter();
      while (reader.next()) {
        switch (reader.kind()) {
          case JsonKind::kText:
            parts.emplace_back(reader.text());
            break;
          case JsonKind::kInteger:
            parts.push_back(std::to_string(reader.integer()));
            break;
          case JsonKind::kBoolean:
            parts.emplace_back(reader.integer() != 0 ? "True" : "False");
            break;
          default:
            reader.require(JsonKind::kText);
        }
      }
      reader.finish();
    } catch (const Error&) {
      refuse_table("the path " + words_of(path) + " is no list of keys");
    }
    return parts;
  }

  /// @param first of the parts that are the tensor's name.
  ItemTensor tensor(const std::vector<std::string>& parts, std::size_t first, PickleValue groups) {
    ItemTensor out;
    for (std::size_t i = first; i < parts.size(); ++i) {
      out.name += (i == first ? "" : ".") + parts[i];
    }
    try {
      for_each_element(tree_, groups, [&](PickleValue group) {
        out.groups.push_back(shardings_.group(group));
        return true;
      });
      require_one_save(out);
      std::sort(out.groups.begin(), out.groups.end(), [](const ItemGroup& a, const ItemGroup& b) {
        return a.ranks->front() < b.ranks->front();
      });
    } catch (const Error& error) {
      out.problem = error.message();
      out.groups.clear();
    }
    return out;
  }

  void require_one_save(const ItemTensor& tensor) const {
    const auto problem = [](const std::string& what) {
      return Error(ErrorKind::kBadInput, std::string(kItemTable) + " " + what);
    };
    if (tensor.groups.empty()) throw problem("does not state its sharding");
    std::vector<std::int64_t> ranks;
    const ItemSharding& first = tensor.groups.front().sharding;
    for (const ItemGroup& group : tensor.groups) {
      ranks.insert(ranks.end(), group.ranks->begin(), group.ranks->end());
      if (group.sharding.full_shape != first.full_shape) {
        throw problem("states two full shapes of it: " + to_string(first.full_shape) + " and " +
                      to_string(group.sharding.full_shape));
      }
      if (group.sharding.dtype != first.dtype) throw problem("states two types of it");
    }
    std::sort(ranks.begin(), ranks.end());
    if (const auto twice = std::adjacent_find(ranks.begin(), ranks.end()); twice != ranks.end()) {
      throw problem("states two parts of it for rank " + std::to_string(*twice));
    }
    if (ranks.back() >= out_.world_size) {
      throw problem("states a part of it for rank " + std::to_string(ranks.back()) +
                    ", but a world_size of " + std::to_string(out_.world_size));
    }
  }

  void require_own_files() const {
    std::map<std::string_view, std::string> owners;
    for (const SavedItem& item : out_.items) {
      for (std::size_t rank = 0; rank < item.layouts.size(); ++rank) {
        std::string owner = "item '" + printable(item.name) + "' of rank " + std::to_string(rank);
        const std::string& file = item.layouts[rank].file;
        const auto [known, is_new] = owners.emplace(file, owner);
        if (is_new) continue;
        refuse_table("the file '" + printable(file) + "' has " + known->second + " and " + owner);
      }
    }
  }

  /// ["a.b"] and ["a", "b"] are different keys, and one name.
  void refuse_equal_names() {
    std::map<std::string, ItemTensor*> known;
    for (SavedItem& item : out_.items) {
      for (ItemTensor& tensor : item.tensors) {
        const auto [twin, is_new] = known.emplace(item.name + "." + tensor.name, &tensor);
        if (is_new) continue;
        for (ItemTensor* one : {twin->second, &tensor}) one->problem = "two values have this name";
      }
    }
  }

  const PickleTree& tree_;
  ItemShardings shardings_;
  ItemTable out_;
};

/// The program writes plain values only; nothing else can be in its table.
constexpr PickleRules kPlainRules{[](const PickleGlobal&) { return false; }};

}  // namespace

std::string item_file(const std::string& item, std::int64_t rank) {
  return item + "_" + std::to_string(rank) + ".pt";
}

ItemTable read_item_table(std::string bytes) {
  const PickleTree tree(std::move(bytes), kPlainRules);
  return ItemTableReader(tree).read();
}

bool is_item_table(const std::string& bytes) noexcept {
  return bytes.find(kTableWord) != std::string::npos;
}

}  // namespace reshardfs
