// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/source_pattern.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/file_name.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/foreign_files.h"
#include "checkpoint/ranks/path_pattern.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/recognition.h"
#include "checkpoint/series/series_names.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/unfinished_names.h"
#include "checkpoint/side_files.h"
#include "checkpoint/whole/counted_name.h"
#include "format/input_format.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "storage/local/unmounted_place.h"

namespace reshardfs {
namespace {

// Without the extension of a format. The last two are below the output directory of MindFormers. It
// saves the weights without the optimizer's states beside the whole checkpoint, so that the whole
// one comes first.
constexpr std::string_view kWeightsAlone = "checkpoint_network";
constexpr std::string_view kWholePattern = "checkpoint/rank_{rank}/*";
constexpr std::string_view kWeightsPattern = "checkpoint_network/rank_{rank}/*";
constexpr std::array<std::string_view, 9> kKnownPatterns = {
    "rank_{rank}/*", "rank{rank}/*",   "node{rank}/*",
    "ckpt_{rank}/*", "*_rank_{rank}*", "model-rank-{rank}-part-*",
    "rank{rank}",    kWholePattern,    kWeightsPattern};
constexpr std::string_view kSafetensorsSuffix = ".safetensors";

Error nothing_found(const std::filesystem::path& root, const std::string& looked_for) {
  return Error(ErrorKind::kMissing, "no checkpoint was found; looked for " + looked_for)
      .in_file(root.string());
}

/// Without hidden ones, which copying programs and macOS leave.
std::vector<DirectoryEntry> visible_entries(const std::filesystem::path& root,
                                            const SourceTreePtr& tree) {
  std::vector<DirectoryEntry> entries = list_directory(root, tree);
  std::erase_if(entries, [](const DirectoryEntry& entry) { return entry.name.starts_with('.'); });
  return entries;
}

constexpr const char* kGivePattern =
    "give their location with --src-pattern, for example 'rank_{rank}/*.ckpt'";

/// "net_{rank}.ckpt" for "net_0.ckpt" and "net_1.ckpt". Empty if the names differ in more than one
/// number, or in that of a step.
std::string pattern_of(const std::vector<std::string>& names) {
  if (names.size() < 2) return {};
  constexpr std::string_view kDigits = "0123456789";
  const std::string& first = names.front();
  // Behind it are an epoch and a step, which ranks share.
  const std::size_t stem = std::filesystem::path(first).stem().string().size();
  const std::size_t end_of_ranks = stem - step_in_file_name(first).size();
  for (std::size_t at = first.find_first_of(kDigits); at < end_of_ranks;) {
    const std::size_t end = std::min(first.find_first_not_of(kDigits, at), first.size());
    const std::string before = first.substr(0, at);
    const std::string after = first.substr(end);
    const bool fits = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      if (name.size() <= before.size() + after.size()) return false;
      const std::string_view number =
          std::string_view(name).substr(before.size(), name.size() - before.size() - after.size());
      return name.starts_with(before) && name.ends_with(after) &&
             number.find_first_not_of(kDigits) == std::string_view::npos;
    });
    if (fits) return printable(before + "{rank}" + after);
    at = first.find_first_of(kDigits, end);
  }
  return {};
}

/// Refuses files without rank numbers, of which the user has to choose one. Accepts a directory
/// whose files have no weights.
void refuse_plain_files(const std::filesystem::path& root, const SourceTreePtr& tree) {
  constexpr std::size_t kMost = 100;
  const std::vector<std::string> names = checkpoint_files_in(root, tree, kMost + 1);
  if (std::all_of(names.begin(), names.end(), has_no_weights)) return;
  const std::string pattern = pattern_of(names);
  const std::string count = names.size() > kMost ? "more than " + counted(kMost, "checkpoint")
                                                 : counted(names.size(), "checkpoint");
  throw Error(ErrorKind::kMissing, count + " here: " + name_list(names))
      .in_file(root.string())
      .needs(Need::kSource)
      .hint(std::string(names.size() == 1 ? "name it" : "name one") +
            "; if each is one rank's, give their pattern with --src-pattern" +
            (pattern.empty() ? "" : " '" + pattern + "'"));
}

/// @throws Error kMissing if the directory has files of the optimizer or the like, and no model.
void refuse_without_weights(const std::filesystem::path& root, const SourceTreePtr& tree) {
  constexpr std::size_t kMost = 100;
  const std::vector<std::string> names = checkpoint_files_in(root, tree, kMost);
  if (!names.empty()) throw without_weights(root, names, tree).needs(Need::kSource);
}

/// For a directory that has nothing that is known.
Error nothing_known(const std::filesystem::path& root, const SourceTreePtr& tree) {
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : list_directory(root, tree)) names.push_back(entry.name);
  if (std::find(names.begin(), names.end(), "config.json") != names.end()) {
    return Error(ErrorKind::kMissing, "has the config.json of a model, but no weights")
        .in_file(root.string())
        .needs(Need::kSource)
        .hint("copy or download the weights, too");
  }
  return Error(ErrorKind::kMissing, "no checkpoint was found; there is " + name_list(names))
      .in_file(root.string())
      .needs(Need::kSource)
      .hint("say where the files are with --src-pattern, for example 'rank_{rank}/*.ckpt'");
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
  if (refuses_links(tree)) throw link_refused(path);
  source.found.links.push_back(path);
}

/// The steps of a run on one device, as ModelCheckpoint names them: PREFIX-EPOCH_STEP.ckpt. Nothing
/// if there are other files, or those of several runs, or in the directory of one rank of several.
std::optional<SourceFiles> find_run(const std::filesystem::path& root, const SourceTreePtr& tree) {
  if (parse_rank_directory(directory_name(root))) return std::nullopt;
  std::set<std::string> runs;
  std::string extension;
  for (const DirectoryEntry& entry : visible_entries(root, tree)) {
    if (!entry.is_regular || !has_checkpoint_name(entry.name)) continue;
    const std::string name = without_breakpoint(entry.name);
    const std::string step = step_in_file_name(name);
    const bool is_other = has_torch_name(entry.name) || has_no_weights(entry.name);
    if (step.empty() || is_other) return std::nullopt;
    extension = std::filesystem::path(name).extension().string();
    runs.insert(name.substr(0, name.size() - extension.size() - step.size()) + extension);
  }
  if (runs.size() != 1) return std::nullopt;
  const std::string pattern = "*" + extension;
  SourceFiles run{pattern, find_rank_files(root, PathPattern(pattern), tree), {}, {}};
  run.notes.push_back("using the files that match " + pattern + " as the steps of one process");
  return run;
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
  require_files(map);
  SourceFiles source = take_parts(map.files, tree);
  note_link(map.map_file, tree, source);
  source.notes.push_back("using the " + counted(map.files.size(), "file") + " of " +
                         map.map_file.filename().string() + " as one whole model");
  source.name_map = std::move(map);
  return source;
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
  for (const DirectoryEntry& entry : visible_entries(root, tree)) {
    const bool is_model = entry.name.ends_with(kSafetensorsSuffix) || has_torch_name(entry.name);
    if (!entry.is_regular || !is_model) continue;
    const auto name = parse_counted_name(entry.name);
    if (name && name->count > 1) {
      series[name->before + "*" + name->after].push_back(entry.name);
    } else if (is_mlx_name(entry.name)) {
      series["weights.*" + std::string(kSafetensorsSuffix)].push_back(entry.name);
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
      unfinished_files(root, visible_entries(root, tree), paths.front().extension().string());
  source.is_whole = true;
  source.notes.push_back("using the " + counted(files.size(), "file") + " " + name +
                         " as one whole model");
  return source;
}

/// Whether counted files are there whose names begin as those of an index do: the same model, saved
/// in another number of files.
bool has_recounted(const std::filesystem::path& root, const NameMapDirectory& map,
                   const SourceTreePtr& tree) {
  const auto listed = parse_counted_name(map.files.front().filename().string());
  if (!listed) return false;
  const std::vector<DirectoryEntry> entries = visible_entries(root, tree);
  return std::any_of(entries.begin(), entries.end(), [&](const DirectoryEntry& entry) {
    const auto name = parse_counted_name(entry.name);
    return entry.is_regular && name && name->before == listed->before;
  });
}

/// The model's files beside which Hugging Face's Trainer and others save their own with torch.save.
constexpr std::array<std::string_view, 3> kTorchModels{"pytorch_model.bin", "model.pt",
                                                       "pytorch_model_fsdp.bin"};

bool is_torch_model(const std::string& name) {
  return std::find(kTorchModels.begin(), kTorchModels.end(), name) != kTorchModels.end();
}

std::vector<std::string> torch_files(const std::vector<DirectoryEntry>& entries) {
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_regular && has_torch_name(entry.name)) names.push_back(entry.name);
  }
  return names;
}

SourceFiles take_file(const std::filesystem::path& root, const std::vector<DirectoryEntry>& entries,
                      const std::string& chosen, const SourceTreePtr& tree) {
  const std::filesystem::path path = root / chosen;
  SourceFiles source = take_one_file(path, "");
  source.warnings = unfinished_files(root, entries, path.extension().string());
  note_link(path, tree, source);
  source.found.files.front().tree = tree;
  source.notes.push_back("using " + printable(chosen));
  return source;
}

/// The file that an index of this name stands for where the model was saved again in one file:
/// "model.safetensors" for "model.safetensors.index.json".
std::string whole_name_of(const std::string& index) {
  return index.substr(0, index.find(".index"));
}

/// Also where the index is left from another save: the model was then saved again, in files that
/// count each other or in one.
std::optional<SourceFiles> find_parts_by_name_map(const std::filesystem::path& root,
                                                  const SourceTreePtr& tree) {
  auto map = find_name_map(root, tree);
  if (!map) return std::nullopt;
  if (!map->is_stale) return take_name_map(std::move(*map), tree);
  const std::string index = map->map_file.filename().string();
  std::optional<SourceFiles> saved_again;
  if (has_recounted(root, *map, tree)) saved_again = find_counted_parts(root, tree);
  const std::string whole = whole_name_of(index);
  if (!saved_again && path_kind(root / whole, tree) == PathKind::kOther) {
    saved_again = take_file(root, visible_entries(root, tree), whole, tree);
  }
  if (!saved_again) return take_name_map(std::move(*map), tree);
  saved_again->warnings.push_back(printable(index) +
                                  " is not used: none of the files that it names is here");
  return saved_again;
}

/// The model that a trainer saves with torch.save, where there is no file of another format.
std::optional<SourceFiles> find_torch_model(const std::filesystem::path& root,
                                            const SourceTreePtr& tree) {
  const std::vector<DirectoryEntry> entries = visible_entries(root, tree);
  const std::vector<std::string> names = torch_files(entries);
  std::vector<std::string> models;
  std::copy_if(names.begin(), names.end(), std::back_inserter(models), is_torch_model);
  if (models.size() != 1) return std::nullopt;
  return take_file(root, entries, models.front(), tree);
}

/// The only file that can be the model: one with weights, beside none of another format.
std::optional<SourceFiles> find_only_torch_file(const std::filesystem::path& root,
                                                const SourceTreePtr& tree) {
  const std::vector<DirectoryEntry> entries = visible_entries(root, tree);
  const std::vector<std::string> names = torch_files(entries);
  if (names.size() != 1 || has_no_weights(names.front())) return std::nullopt;
  const auto formats = input_formats();
  const bool has_others = std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
    const std::filesystem::path extension = std::filesystem::path(entry.name).extension();
    return entry.is_regular && std::any_of(formats.begin(), formats.end(), [&](const auto& format) {
             return extension == format.extension;
           });
  });
  if (has_others) return std::nullopt;
  refuse_beside_models(root, names.front(), tree);
  return take_file(root, entries, names.front(), tree);
}

/// A directory as a model is published in: one safetensors file, whatever else is there.
std::optional<SourceFiles> find_single_file(const std::filesystem::path& root,
                                            const SourceTreePtr& tree) {
  std::vector<std::string> names;
  const std::vector<DirectoryEntry> entries = visible_entries(root, tree);
  for (const DirectoryEntry& entry : entries) {
    if (entry.is_regular && entry.name.ends_with(kSafetensorsSuffix)) names.push_back(entry.name);
  }
  // Beside an adapter or the optimizer's states, the directory stands for the model.
  if (names.size() > 1) {
    std::erase_if(names, [](const auto& name) { return side_file(name) != SideFile::kNone; });
  }
  if (names.size() != 1) return std::nullopt;
  return take_file(root, entries, names.front(), tree);
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

std::span<const std::string_view> known_patterns() {
  return kKnownPatterns;
}

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

std::optional<SourceFiles> find_whole_model(const std::filesystem::path& root,
                                            const SourceTreePtr& tree) {
  for (const auto find :
       {find_parts_by_name_map, find_counted_parts, find_single_file, find_torch_model}) {
    if (std::optional<SourceFiles> source = find(root, tree)) return source;
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
  if (auto whole = find_whole_model(root, tree)) return std::move(*whole);
  refuse_foreign_directory(root, tree);
  if (auto file = find_only_torch_file(root, tree)) return std::move(*file);
  refuse_pipeline(root, tree);
  if (auto run = find_run(root, tree)) return std::move(*run);
  refuse_plain_files(root, tree);
  refuse_foreign_files(root, tree);
  if (const auto below = described_set_in(root, tree)) {
    throw Error(ErrorKind::kMissing, "is not a checkpoint itself, but its directory '" +
                                         printable(below->filename().string()) + "' is one")
        .in_file(root.string())
        .needs(Need::kSource)
        .hint("give " + printable(below->string()) + " as the source");
  }
  refuse_without_weights(root, tree);
  if (list_directory(root, tree).empty()) {
    throw Error(ErrorKind::kMissing, "is an empty directory")
        .in_file(root.string())
        .hint(is_url(root) ? "" : mount_it_first(root))
        .hint("give a checkpoint directory or a checkpoint file as the source");
  }
  refuse_foreign_below(root, tree);
  throw nothing_known(root, tree);
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
