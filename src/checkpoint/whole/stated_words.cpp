// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/stated_words.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "reshardfs/error.h"

#include "base/json/json_copy.h"
#include "base/json/json_value.h"
#include "base/process/parallel.h"
#include "base/text/file_name.h"
#include "base/text/url_path.h"
#include "checkpoint/checkpoint_set.h"
#include "checkpoint/whole/counted_name.h"
#include "format/safetensors/safetensors.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

/// As of an index with a hundred bytes for each of a million parameters.
constexpr std::uint64_t kMaxIndexBytes = 100'000'000;

/// Keys about a file or a save, and not about the model.
bool is_of_file(std::string_view key) {
  constexpr std::array<std::string_view, 5> kKeys{"format", "crc_num", "remove_redundancy",
                                                  "DCP_SHARDING_INFO", "DCP_VERSION"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

/// Of files that share an index, one; not one that is compared when it is read.
std::vector<const RankFile*> files_with_headers(const CheckpointSet& set) {
  std::vector<const RankFile*> files;
  std::set<const FileIndex*> indexes;
  for (const RankFile& file : set.files()) {
    if (file.of_torch() || file.path.extension() != ".safetensors" || file.unexamined) continue;
    if (indexes.insert(file.index.get()).second) files.push_back(&file);
  }
  return files;
}

using Words = std::map<std::string, std::string>;

Words words_of(const RankFile& file) {
  try {
    return safetensors::read_metadata(*file.source);
  } catch (const Error& error) {
    // A file whose tensors the set's table lists may have another format.
    if (error.kind() != ErrorKind::kBadInput) throw;
    return {};
  }
}

/// Words of MindSpore's: the type of an I8 tensor, which its index has.
bool is_type(const RankFile& file, const std::string& key, const std::string& value) {
  return value == mindspore_name(DType::kInt4) && file.index->find(key) != nullptr;
}

/// The first list, with what it lacks of the second at its end.
std::string joined_lists(std::vector<std::string> names, std::vector<std::string> more) {
  const std::set<std::string> known(names.begin(), names.end());
  for (std::string& name : more) {
    if (!known.contains(name)) names.push_back(std::move(name));
  }
  return described_tensors_text(names);
}

class Union {
 public:
  void add(const RankFile& file, Words words) {
    for (auto& [key, value] : words) {
      if (!is_of_file(key) && !is_type(file, key, value)) add(key, std::move(value));
    }
  }
  StatedWords take() {
    if (bytes_ > kMostWordBytes) {
      out_.header.clear();
      ambiguous_.clear();
      out_.refused = std::to_string(bytes_) + " bytes of metadata; the limit is " +
                     std::to_string(kMostWordBytes);
    }
    for (const std::string& key : ambiguous_) out_.header.erase(key);
    out_.ambiguous.assign(ambiguous_.begin(), ambiguous_.end());
    return std::move(out_);
  }

 private:
  void add(const std::string& key, std::string value) {
    if (bytes_ > kMostWordBytes) return;
    const auto found = out_.header.find(key);
    if (found == out_.header.end()) {
      bytes_ += key.size() + value.size();
      out_.header.emplace(key, std::move(value));
      return;
    }
    if (found->second == value) return;
    auto names = described_tensors(key, found->second);
    auto more = described_tensors(key, value);
    if (names && more) {
      bytes_ += value.size();
      found->second = joined_lists(*std::move(names), *std::move(more));
    } else {
      ambiguous_.insert(key);
    }
  }

  StatedWords out_;
  std::set<std::string> ambiguous_;
  std::size_t bytes_ = 0;
};

/// @param metadata the reader stands at it.
void add_words(JsonReader& metadata, StatedWords& out) {
  metadata.enter();
  while (metadata.next()) {
    if (metadata.key() == "total_size") continue;
    std::string key(metadata.key());
    JsonWriter value({.between = ", ", .after_key = ": "});
    copy_json(metadata, value);
    out.index.emplace_back(std::move(key), value.take());
  }
}

/// The members of metadata in an index that names any of the files.
void add_words_of_index(const fs::path& index, const std::set<std::string>& files,
                        const SourceTreePtr& tree, StatedWords& out) {
  StatedWords found;
  bool names_files = false;
  const std::string text = read_small_file(index, kMaxIndexBytes, tree);
  JsonReader reader(text);
  reader.require(JsonKind::kObject);
  reader.enter();
  while (reader.next()) {
    const bool is_map = reader.key() == "weight_map";
    if ((!is_map && reader.key() != "metadata") || reader.kind() != JsonKind::kObject) continue;
    if (!is_map) {
      add_words(reader, found);
      continue;
    }
    reader.enter();
    while (reader.next()) {
      names_files = names_files || (reader.kind() == JsonKind::kText &&
                                    files.contains(std::string(reader.text())));
    }
  }
  if (names_files) out.index = std::move(found.index);
}

/// Whether an index may name the files. On a server, a single file need not have any: its directory
/// is not listed then, which the server may refuse.
bool may_have_index(const std::vector<RankFile>& files) {
  const fs::path& path = files.front().path;
  const std::string name = path.filename().string();
  const bool is_of_hub = name.ends_with(".safetensors") || name.ends_with(".bin");
  return is_of_hub && (!is_url(path) || files.size() > 1 || parse_counted_name(name));
}

/// The indexes that a set may have been read by: the one that the user named, or those that lie
/// beside its files.
std::vector<fs::path> indexes_of(const CheckpointSet& set, const SourceTreePtr& tree) {
  const fs::path& root = set.root();
  if (is_index_name(root.filename().string())) return {root};
  const fs::path directory = set.files().front().path.parent_path();
  // A file that was named is read alone.
  if (set.files().front().path == root || !may_have_index(set.files())) return {};
  std::vector<fs::path> indexes;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (entry.is_regular && is_index_name(entry.name)) indexes.push_back(directory / entry.name);
  }
  return indexes;
}

/// Of the index that the set was opened by.
void add_known_words(const std::string& metadata, StatedWords& out) {
  JsonReader reader(metadata);
  reader.enter();
  while (reader.next()) add_words(reader, out);
}

void read_index_words(const CheckpointSet& set, const SourceTreePtr& tree, StatedWords& out) {
  std::set<std::string> names;
  for (const RankFile& file : set.files()) names.insert(file.path.filename().string());
  for (const fs::path& index : indexes_of(set, tree)) {
    if (index.filename() == set.found_by().index) {
      add_known_words(set.found_by().metadata, out);
      if (!out.index.empty()) return;
      continue;
    }
    try {
      add_words_of_index(index, names, tree, out);
    } catch (const Error& error) {
      // The reader that needs it reports what is wrong with it.
      if (error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kChanged) throw;
    }
    if (!out.index.empty()) return;
  }
}

}  // namespace

StatedWords read_stated_words(const CheckpointSet& set, const SourceTreePtr& tree) {
  const std::vector<const RankFile*> files = files_with_headers(set);
  // Each file may repeat all words.
  constexpr std::size_t kAtOnce = kRequestsAtOnce;
  Union all;
  for (std::size_t first = 0; first < files.size(); first += kAtOnce) {
    std::vector<Words> words(std::min(kAtOnce, files.size() - first));
    parallel_for(
        words.size(), [&](std::size_t i) { words[i] = words_of(*files[first + i]); },
        files.front()->source->is_far() ? kAtOnce : 0);
    for (std::size_t i = 0; i < words.size(); ++i) all.add(*files[first + i], std::move(words[i]));
  }
  StatedWords out = all.take();
  if (set.files().front().rank == Rank() && set.files().back().rank == Rank()) {
    read_index_words(set, tree, out);
  }
  return out;
}

std::optional<std::vector<std::string>> described_tensors(const std::string& key,
                                                          const std::string& value) {
  if (key != kDescribedTensors) return std::nullopt;
  const auto document = JsonDocument::parse(value);
  if (!document || !document->value().is_list()) return std::nullopt;
  std::vector<std::string> names;
  for (const JsonValue name : document->value()) {
    if (!name.text()) return std::nullopt;
    names.emplace_back(*name.text());
  }
  return names;
}

std::string described_tensors_text(const std::vector<std::string>& names) {
  JsonWriter writer({.between = ", ", .text = JsonText::kAscii});
  writer.texts(names);
  return writer.take();
}

bool states_class(const std::string& value) {
  if (!value.starts_with('{')) return false;
  const auto document = JsonDocument::parse(value);
  return document && document->value().is_object() && document->value().find("_type");
}

}  // namespace reshardfs
