// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/source_pattern.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/file_name.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/foreign_files.h"
#include "checkpoint/ranks/path_pattern.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/recognition.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/unfinished_names.h"
#include "checkpoint/whole/counted_name.h"
#include "format/input_format.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

// Without the extension of a format. The last two are below the output directory of MindFormers. It
// saves the weights without the optimizer's states beside the whole checkpoint, so that the whole
// one comes first.
constexpr std::string_view kWeightsAlone = "checkpoint_network";
constexpr std::string_view kWholePattern = "checkpoint/rank_{rank}/*";
constexpr std::string_view kWeightsPattern = "checkpoint_network/rank_{rank}/*";
constexpr std::array<std::string_view, 7> kKnownPatterns = {
    "rank_{rank}/*", "node{rank}/*", "ckpt_{rank}/*", "*_rank_{rank}*", "model-rank-{rank}-part-*",
    kWholePattern,   kWeightsPattern};
constexpr std::string_view kSafetensorsSuffix = ".safetensors";

Error nothing_found(const std::filesystem::path& root, const std::string& looked_for) {
  return Error(ErrorKind::kMissing, "no checkpoint was found; looked for " + looked_for)
      .in_file(root.string());
}

/// What every known form of a source is recognized by.
std::string all_forms() {
  std::string forms = ".metadata of a distributed checkpoint, and files of ranks:";
  for (const std::string_view known : kKnownPatterns) {
    forms += (known == kKnownPatterns.front() ? " " : ", ") + std::string(known);
  }
  forms += " with the extension";
  for (const InputFormat& format : input_formats()) {
    const bool first = &format == &input_formats().front();
    forms += (first ? " " : " or ") + std::string(format.extension);
  }
  return forms;
}

constexpr const char* kGivePattern =
    "give their location with --src-pattern, for example 'rank_{rank}/*.ckpt'";

/// Files that are no rank's, as of a run on one device: which of them is meant, only the user
/// knows.
void refuse_plain_files(const std::filesystem::path& root, const SourceTreePtr& tree) {
  constexpr std::size_t kMost = 100;
  const std::vector<std::string> names = checkpoint_files_in(root, tree, kMost + 1);
  if (names.empty()) return;
  const std::string count = names.size() > kMost ? "more than " + counted(kMost, "checkpoint")
                                                 : counted(names.size(), "checkpoint");
  throw Error(ErrorKind::kMissing, count + " here: " + name_list(names))
      .in_file(root.string())
      .needs(Need::kSource)
      .hint(std::string(names.size() == 1 ? "name it" : "name one") +
            ", or give the pattern of a file for each rank with --src-pattern, for example "
            "'net_{rank}.ckpt'");
}

/// What a known pattern finds, in whichever format.
/// @throws Error kBadInput if there are files of two formats: which one counts?
std::optional<SourceFiles> find_known(const std::filesystem::path& root, std::string_view known,
                                      const SourceTreePtr& tree) {
  std::optional<SourceFiles> source;
  for (const InputFormat& format : input_formats()) {
    const std::string pattern = std::string(known) + std::string(format.extension);
    RankFiles found = find_rank_files(root, PathPattern(pattern), tree);
    if (found.files.empty()) continue;
    if (source) {
      throw Error(ErrorKind::kBadInput,
                  "has files of two formats: " + source->pattern + " and " + pattern)
          .in_file(root.string())
          .hint("select one format, for example with --src-pattern '" + pattern + "'");
    }
    source = SourceFiles{pattern, std::move(found), {}, {}};
  }
  return source;
}

void note_link(const std::filesystem::path& path, const SourceTreePtr& tree, SourceFiles& source) {
  if (!is_link(path)) return;
  if (tree) throw link_refused(path);
  source.found.links.push_back(path);
}

/// A whole model in files of rank 0.
SourceFiles take_parts(const std::vector<std::filesystem::path>& files, const SourceTreePtr& tree) {
  SourceFiles source;
  for (std::size_t i = 0; i < files.size(); ++i) {
    note_link(files[i], tree, source);
    source.found.files.push_back({Rank(), "", files[i], static_cast<std::int64_t>(i), tree});
  }
  return source;
}

SourceFiles take_name_map(NameMapDirectory map, const SourceTreePtr& tree) {
  SourceFiles source = take_parts(map.files, tree);
  note_link(map.map_file, tree, source);
  source.notes.push_back("using the " + counted(map.files.size(), "file") + " of " +
                         map.map_file.filename().string() + " as one whole model");
  source.name_map = std::move(map);
  return source;
}

std::optional<SourceFiles> find_parts_by_name_map(const std::filesystem::path& root,
                                                  const SourceTreePtr& tree) {
  auto map = find_name_map(root, tree);
  if (!map) return std::nullopt;
  return take_name_map(std::move(*map), tree);
}

/// "weights.00.safetensors", as MLX counts its files.
bool is_mlx_name(std::string_view name) {
  constexpr std::string_view kBegin = "weights.";
  if (!name.starts_with(kBegin) || !name.ends_with(kSafetensorsSuffix)) return false;
  if (name.size() <= kBegin.size() + kSafetensorsSuffix.size()) return false;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kSafetensorsSuffix.size());
  return name.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Names of MLX state no count, but a hole in their numbers shows that a file is missing.
/// @param names all of one form, ascending.
void require_each_mlx_number(const std::filesystem::path& root,
                             const std::vector<std::string>& names) {
  constexpr std::size_t kBegin = std::string_view("weights.").size();
  std::set<std::int64_t> numbers;
  for (const std::string& name : names) {
    const std::size_t digits = name.size() - kBegin - kSafetensorsSuffix.size();
    const auto number = parse_number(std::string_view(name).substr(kBegin, digits));
    if (number) numbers.insert(*number);
  }
  std::int64_t expected = numbers.contains(1) && !numbers.contains(0) ? 1 : 0;
  for (const std::int64_t number : numbers) {
    if (number == expected++) continue;
    throw Error(ErrorKind::kMissing, "has files such as '" + printable(names.back()) +
                                         "', but none of number " + std::to_string(expected - 1))
        .in_file(root.string())
        .hint("bring the missing file");
  }
}

/// A whole model in files that count each other, without an index.
std::optional<SourceFiles> find_counted_parts(const std::filesystem::path& root,
                                              const SourceTreePtr& tree) {
  std::map<std::string, std::vector<std::string>> series;
  std::vector<std::string> others;
  for (const DirectoryEntry& entry : list_directory(root, tree)) {
    const bool is_model = entry.name.ends_with(kSafetensorsSuffix) || has_torch_name(entry.name);
    if (!entry.is_regular || !is_model) continue;
    const auto name = parse_counted_name(entry.name);
    if (name && name->count > 1) {
      series[name->before + "*" + name->after].push_back(entry.name);
    } else if (is_mlx_name(entry.name)) {
      series["weights.*" + std::string(kSafetensorsSuffix)].push_back(entry.name);
    } else {
      others.push_back(entry.name);
    }
  }
  if (series.empty() || (series.size() == 1 && series.begin()->second.size() == 1 &&
                         is_mlx_name(series.begin()->second.front()))) {
    return std::nullopt;
  }
  if (series.size() > 1) {
    std::vector<std::string> names;
    for (const auto& [name, files] : series) names.push_back(name);
    throw Error(ErrorKind::kBadInput, "has the files of " + std::to_string(series.size()) +
                                          " models, without an index: " + name_list(names))
        .in_file(root.string())
        .hint("keep the files of one of them in a directory of their own");
  }
  auto& [name, files] = *series.begin();
  std::sort(files.begin(), files.end());
  if (is_mlx_name(files.front())) require_each_mlx_number(root, files);
  std::vector<std::filesystem::path> paths;
  for (const std::string& file : files) paths.push_back(root / file);
  SourceFiles source = take_parts(paths, tree);
  source.warnings =
      unfinished_files(root, list_directory(root, tree), paths.front().extension().string());
  source.is_whole = true;
  source.notes.push_back("using the " + counted(files.size(), "file") + " " + name +
                         " as one whole model");
  if (!others.empty()) {
    source.warnings.push_back("not read, because " + name +
                              " does not count them: " + name_list(others));
  }
  return source;
}

/// The model's files beside which Hugging Face's Trainer and others save their own with torch.save.
constexpr std::array<std::string_view, 3> kTorchModels{"pytorch_model.bin", "consolidated.00.pth",
                                                       "model.pt"};

bool is_torch_model(const std::string& name) {
  return std::find(kTorchModels.begin(), kTorchModels.end(), name) != kTorchModels.end();
}

/// Files of torch.save in a directory, where there is no file of another format.
std::optional<SourceFiles> find_torch_file(const std::filesystem::path& root,
                                           const SourceTreePtr& tree) {
  std::vector<std::string> names;
  std::vector<std::string> models;
  const std::vector<DirectoryEntry> entries = list_directory(root, tree);
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_regular || !has_torch_name(entry.name)) continue;
    names.push_back(entry.name);
    if (is_torch_model(entry.name)) models.push_back(entry.name);
  }
  if (models.empty()) models = names;
  if (models.size() != 1) return std::nullopt;
  const std::filesystem::path path = root / models.front();
  SourceFiles source = take_one_file(path, "");
  source.warnings = unfinished_files(root, entries, path.extension().string());
  note_link(path, tree, source);
  source.found.files.front().tree = tree;
  std::erase(names, models.front());
  source.notes.push_back("using " + printable(models.front()) +
                         (names.empty() ? "" : ", and not " + name_list(names)));
  return source;
}

/// A directory as a model is published in: one safetensors file, whatever else is there.
std::optional<SourceFiles> find_single_file(const std::filesystem::path& root,
                                            const SourceTreePtr& tree) {
  std::vector<std::string> names;
  const std::vector<DirectoryEntry> entries = list_directory(root, tree);
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_regular && entry.name.ends_with(kSafetensorsSuffix)) names.push_back(entry.name);
  }
  if (names.size() != 1) return std::nullopt;
  SourceFiles source = take_one_file(root / names.front(), "");
  source.warnings = unfinished_files(root, entries, kSafetensorsSuffix);
  note_link(root / names.front(), tree, source);
  source.found.files.front().tree = tree;
  source.notes.push_back("using the only safetensors file, " + printable(names.front()));
  return source;
}

void note_choice(const std::filesystem::path& root, std::string_view known, SourceFiles& source) {
  if (known == kKnownPatterns.front()) return;
  std::string note = "using the files that match " + source.pattern;
  if (known == kWeightsPattern) {
    note += ", which hold only weights, no optimizer states";
  } else if (known == kWholePattern && path_kind(root / kWeightsAlone) == PathKind::kDirectory) {
    note += ", and ignoring " + std::string(kWeightsAlone) + ", which holds only weights";
  }
  source.notes.push_back(std::move(note));
}

}  // namespace

std::optional<SourceFiles> find_known_pattern(const std::filesystem::path& root,
                                              const SourceTreePtr& tree) {
  for (const std::string_view known : kKnownPatterns) {
    std::optional<SourceFiles> source = find_known(root, known, tree);
    if (!source) continue;
    note_choice(root, known, *source);
    return source;
  }
  return std::nullopt;
}

SourceFiles find_by_pattern(const std::filesystem::path& root, const std::string& wanted,
                            const SourceTreePtr& tree) {
  if (!wanted.empty()) {
    RankFiles found = find_rank_files(root, PathPattern(wanted), tree);
    if (!found.files.empty()) return {wanted, std::move(found), {}, {}};
    throw nothing_found(root, printable(wanted)).hint(kGivePattern);
  }
  if (auto known = find_known_pattern(root, tree)) return std::move(*known);
  for (const auto find :
       {find_parts_by_name_map, find_counted_parts, find_single_file, find_torch_file}) {
    if (std::optional<SourceFiles> source = find(root, tree)) return std::move(*source);
  }
  refuse_plain_files(root, tree);
  refuse_foreign_files(root, tree);
  if (const auto below = described_set_in(root, tree)) {
    throw Error(ErrorKind::kMissing, "is not a checkpoint itself, but its directory '" +
                                         printable(below->filename().string()) + "' is one")
        .in_file(root.string())
        .needs(Need::kSource)
        .hint("give " + printable(below->string()) + " as the source");
  }
  if (list_directory(root, tree).empty()) {
    throw Error(ErrorKind::kMissing, "is an empty directory")
        .in_file(root.string())
        .hint("give a checkpoint directory or a checkpoint file as the source");
  }
  throw nothing_found(root, all_forms()).needs(Need::kSource).hint(kGivePattern);
}

SourceFiles take_one_file(const std::filesystem::path& path, const std::string& wanted) {
  const std::string name = path.filename().string();
  if (is_index_name(name)) return take_name_map(read_name_map(path), nullptr);
  SourceFiles source;
  // One file is what was asked for, whatever other parts lie beside it.
  const RankPartName segment = rank_part_name(name);
  source.found.files.push_back(
      {Rank(), segment.has_step ? step_in_file_name(segment.whole) : "", path, -1, {}});
  if (!wanted.empty()) {
    source.notes.emplace_back("--src-pattern was not used: the source is one file");
  }
  return source;
}

}  // namespace reshardfs
