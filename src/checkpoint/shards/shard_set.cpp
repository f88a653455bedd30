// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shards/shard_set.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/box_catalogue.h"
#include "checkpoint/ranks/source_pattern.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/series/unfinished_names.h"
#include "checkpoint/set_format.h"
#include "checkpoint/shards/shard_shapes.h"
#include "checkpoint/source_links.h"
#include "checkpoint/whole/index_statement.h"
#include "format/json/json_members.h"
#include "format/safetensors/safetensors.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShardExtension = ".safetensors";
constexpr std::string_view kWhole = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr const char* kConfig = "config.json";
/// Where the shards are if the whole tensors are to be beside them.
constexpr std::string_view kBelow = "sharded";
constexpr const char* kInfo = "DCP_SHARDING_INFO";
constexpr std::uint64_t kMostIndexBytes = 256ULL << 20U;

/// "shard-00002-model-00001-of-00003.safetensors", or the same without the shard: of whole tensors.
struct FileName {
  std::int64_t shard = 0;  ///< from 1 on; 0: none
  std::int64_t file = 0;   ///< from 1 on
  std::int64_t files = 0;
};

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

bool take_count(std::string_view& text, std::int64_t& number) {
  const auto taken = take_number<std::int64_t>(text);
  if (!taken || *taken < 1) return false;
  number = *taken;
  return true;
}

std::optional<FileName> parse(std::string_view text) {
  FileName name;
  if (take(text, "shard-") && !(take_count(text, name.shard) && take(text, "-"))) return {};
  const bool good = take(text, "model-") && take_count(text, name.file) && take(text, "-of-") &&
                    take_count(text, name.files) && text == kShardExtension;
  if (!good || name.file > name.files) return {};
  return name;
}

struct Candidate {
  DirectoryEntry entry;
  std::optional<FileName> name;
};

bool is_numbered(const Candidate& candidate) {
  return candidate.name && candidate.name->shard > 0;
}

/// Whether a file states where its tensors begin.
bool tells_offsets(const fs::path& path, const SourceTreePtr& tree) {
  try {
    return safetensors::read_metadata(*open_file(path, tree)).contains(kInfo);
  } catch (const Error&) {
    return false;  // the format that takes it reports what is wrong
  }
}

/// The files with parts of tensors, directly in a directory; none if it is no such set.
std::vector<Candidate> list_shards(const fs::path& directory, const SourceTreePtr& tree) {
  std::vector<Candidate> all;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (entry.name == kIndex || entry.name == kWhole) return {};
    if (!entry.is_regular || !entry.name.ends_with(kShardExtension)) continue;
    all.push_back({entry, parse(entry.name)});
  }
  if (std::any_of(all.begin(), all.end(), is_numbered)) return all;
  // One file alone is a model, and files whose names tell their ranks are of another kind.
  if (all.size() < 2 || find_known_pattern(directory, tree)) return {};
  if (!tells_offsets(directory / all.front().entry.name, tree)) return {};
  return all;
}

struct Shards {
  fs::path directory;
  std::vector<Candidate> files;
  /// Where a config.json or an index of the same model may be.
  std::vector<fs::path> companions;
};

Shards find_shards(const fs::path& directory, const SourceTreePtr& tree) {
  Shards found;
  found.directory = directory;
  found.files = list_shards(directory, tree);
  found.companions.push_back(directory);
  // Nothing above a tree can be opened with it.
  if (!unrecorded(tree) && directory_name(directory) == kBelow) {
    found.companions.push_back(directory / "..");
  }
  const fs::path below = directory / kBelow;
  if (!found.files.empty() || path_kind(below, tree) != PathKind::kDirectory) return found;
  // The whole tensors beside them are the same model.
  const std::vector<DirectoryEntry> entries = list_directory(directory, tree);
  const bool is_model = std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
    return entry.name == kIndex || entry.name.ends_with(kShardExtension);
  });
  if (is_model) return found;
  found.directory = below;
  found.files = list_shards(below, tree);
  found.companions.push_back(below);
  return found;
}

class ShardReader {
 public:
  ShardReader(Shards shards, const SourceTreePtr& tree)
      : directory_(std::move(shards.directory)),
        candidates_(std::move(shards.files)),
        companions_(std::move(shards.companions)),
        tree_(tree) {}

  Discovery read() {
    out_.warnings =
        unfinished_files(directory_, list_directory(directory_, tree_), kShardExtension);
    evidence_.numbered = std::any_of(candidates_.begin(), candidates_.end(), is_numbered);
    if (evidence_.numbered) {
      take_numbered();
    } else {
      take_all();
    }
    if (auto note = links_outside(directory_, links_)) out_.notes.push_back(std::move(*note));
    for (const fs::path& place : companions_) read_companions(place);
    out_.notes.push_back("joined from " +
                         counted(static_cast<std::size_t>(evidence_.shards), "shard") + " in " +
                         counted(out_.files.size(), "file"));
    out_.catalogue = std::make_shared<const ShardCatalogue>(evidence_.shards, std::move(names_));
    state();
    return std::move(out_);
  }

 private:
  void add(const Candidate& candidate, std::int64_t rank, std::int64_t part) {
    const fs::path path = directory_ / candidate.entry.name;
    if (candidate.entry.is_link && refuses_links(tree_)) throw link_refused(path);
    if (candidate.entry.is_link) links_.push_back(path);
    out_.files.push_back({Rank(rank), {}, path, part, tree_});
  }

  /// The ranks must be 1 to n: nothing else tells that the files of one are missing.
  void take_numbered() {
    std::set<std::int64_t> shards;
    const Candidate* first = nullptr;
    for (const Candidate& candidate : candidates_) {
      if (!is_numbered(candidate)) continue;
      if (first == nullptr) first = &candidate;
      require_one_save(*first, candidate);
      shards.insert(candidate.name->shard);
      add(candidate, candidate.name->shard - 1, candidate.name->file - 1);
    }
    evidence_.shards = *shards.rbegin();
    require_each_number(*first);
    if (evidence_.shards == static_cast<std::int64_t>(shards.size())) return;
    std::int64_t missing = 1;
    while (shards.contains(missing)) ++missing;
    throw Error(ErrorKind::kMissing, "has files of " + counted(shards.size(), "shard") + " up to " +
                                         std::to_string(evidence_.shards) + ", but none of shard " +
                                         std::to_string(missing))
        .in_file(directory_.string())
        .hint("bring the missing files (shard-...), or wait until all ranks have saved");
  }

  void require_one_save(const Candidate& first, const Candidate& other) const {
    if (first.name->files == other.name->files) return;
    throw Error(ErrorKind::kBadInput, "has shards of two saves: '" + printable(first.entry.name) +
                                          "' and '" + printable(other.entry.name) +
                                          "' are of different numbers of files")
        .in_file(directory_.string())
        .hint("keep the files of one save");
  }

  void take_all() {
    std::set<std::int64_t> numbers;
    std::int64_t files = 0;
    const Candidate* first = nullptr;
    for (const Candidate& candidate : candidates_) {
      add(candidate, evidence_.shards++, -1);
      if (!candidate.name) continue;
      if (first == nullptr) first = &candidate;
      require_one_save(*first, candidate);
      numbers.insert(candidate.name->file);
      files = std::max(files, candidate.name->files);
    }
    counts_all_ = numbers.size() == candidates_.size();
    if (static_cast<std::int64_t>(numbers.size()) == files) return;
    throw Error(ErrorKind::kMissing, "has " + counted(numbers.size(), "file") + " of " +
                                         std::to_string(files) + " (model-...-of-...)")
        .in_file(directory_.string())
        .hint("bring the missing files, or wait until all are saved");
  }

  void read_companions(const fs::path& place) {
    if (evidence_.config.empty()) {
      evidence_.config = ModelShapes::read(place / kConfig, tree_);
    }
    if (path_kind(place / kIndex, tree_) != PathKind::kOther) return;
    try {
      const JsonTexts texts =
          read_json_texts(read_small_file(place / kIndex, kMostIndexBytes, unrecorded(tree_)),
                          "weight_map", "metadata");
      for (const auto& [name, file] : texts.members) names_.emplace_back(name);
      evidence_.index = place / kIndex;
      evidence_.total_bytes = read_total_size(texts.beside);
    } catch (Error& error) {
      throw error.in_file((place / kIndex).string());
    }
  }

  /// A shard need not have a file of each number, but one of them all has.
  void require_each_number(const Candidate& first) {
    std::set<std::int64_t> numbers;
    for (const FoundFile& file : out_.files) numbers.insert(file.part);
    const std::int64_t files = first.name->files;
    if (static_cast<std::int64_t>(numbers.size()) == files) return;
    std::int64_t missing = 0;
    while (numbers.contains(missing)) ++missing;
    out_.completeness.missing.push_back(
        Error(ErrorKind::kMissing,
              "the names count " + counted(static_cast<std::size_t>(files), "file") +
                  " of each shard, but no shard has file " + std::to_string(missing + 1))
            .in_file(directory_.string())
            .hint("bring the missing files (shard-...), or wait until all ranks have saved"));
  }

  /// What the names state, and what the files must be asked for.
  void state() {
    if (counts_all_) {
      out_.completeness.grounds.push_back("counts in " + counted(out_.files.size(), "name"));
      out_.completeness.counted = true;
      return;
    }
    out_.by_contents = [evidence = std::move(evidence_)](const std::vector<RankFile>& files,
                                                         Completeness& out) {
      state_shapes(evidence, files, out);
    };
  }

  fs::path directory_;
  std::vector<Candidate> candidates_;
  std::vector<fs::path> companions_;
  const SourceTreePtr& tree_;
  ShardEvidence evidence_;
  std::vector<std::string> names_;  ///< of the model in whole tensors
  bool counts_all_ = false;         ///< the files' names count them all, and they are there
  std::vector<fs::path> links_;
  Discovery out_;
};

}  // namespace

ShardCatalogue::ShardCatalogue(std::int64_t shards, std::vector<std::string> names)
    : BoxCatalogue(SourceRanks(RankRange(Rank(), shards), shards)), names_(std::move(names)) {}

std::optional<BoxPlacement> ShardCatalogue::boxes(const std::string& /*name*/,
                                                  const Holders& holders) const {
  BoxPlacement placement = boxes_of_entries(holders, {});
  Shape& full = placement.full_shape;
  full.assign(placement.boxes.front().box.sizes.size(), 0);
  for (const PlacedBox& placed : placement.boxes) {
    const Box& box = placed.box;
    if (box.sizes.size() != full.size()) {
      throw Error(ErrorKind::kBadInput, "its parts have " + std::to_string(full.size()) + " and " +
                                            std::to_string(box.sizes.size()) + " dimensions")
          .in_file(placed.holdings.front().file->source->name())
          .hint(hint());
    }
    for (std::size_t d = 0; d < full.size(); ++d) {
      full[d] = std::max(full[d], add_or_throw(box.offsets[d], box.sizes[d], "its size"));
    }
  }
  return placement;
}

std::optional<Discovery> discover_shards(const fs::path& directory,
                                         const CheckpointOptions& options,
                                         const SourceTreePtr& tree) {
  Shards shards = find_shards(directory, tree);
  if (shards.files.empty()) return std::nullopt;
  if (options.step != kLatestStep) throw no_steps(directory);
  return ShardReader(std::move(shards), tree).read();
}

std::optional<std::vector<StepInfo>> find_shard_steps(const fs::path& directory,
                                                      const SourceTreePtr& tree) {
  if (find_shards(directory, tree).files.empty()) return std::nullopt;
  return std::vector<StepInfo>();
}

}  // namespace reshardfs
