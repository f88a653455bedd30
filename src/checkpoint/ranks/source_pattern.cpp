// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/source_pattern.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/foreign_files.h"
#include "checkpoint/ranks/path_pattern.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/recognition.h"
#include "checkpoint/series/step.h"
#include "checkpoint/series/unfinished_names.h"
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
constexpr std::array<std::string_view, 6> kKnownPatterns = {"rank_{rank}/*", "node{rank}/*",
                                                            "ckpt_{rank}/*", "*_rank_{rank}*",
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

/// Files of other programs that are a model all the same: what they are, and what converts them.
void refuse_torch_files(const std::filesystem::path& root, const SourceTreePtr& tree) {
  std::string other;
  for (const DirectoryEntry& entry : list_directory(root, tree)) {
    if (!entry.is_regular) continue;
    const std::string& name = entry.name;
    if (name.ends_with("_optim_states.pt") || name.ends_with("_model_states.pt")) {
      throw Error(ErrorKind::kUnsupported, "has files of DeepSpeed (" + printable(name) +
                                               "), which only DeepSpeed can put together")
          .in_file(root.string())
          .hint("its zero_to_fp32.py writes safetensors with --safe_serialization");
    }
    const bool torch = name.ends_with(".pt") || name.ends_with(".pth") ||
                       ((name.starts_with("pytorch_model") || name.starts_with("adapter_model")) &&
                        name.ends_with(".bin"));
    if (torch && other.empty()) other = name;
  }
  if (other.empty()) return;
  throw Error(ErrorKind::kUnsupported, "has files of torch.save (" + printable(other) +
                                           "), which do not tell how a tensor is cut")
      .in_file(root.string())
      .hint(
          "load them with the program that saved them, and save the model with "
          "torch.distributed.checkpoint, or whole as safetensors");
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

std::optional<SourceFiles> find_parts_by_name_map(const std::filesystem::path& root,
                                                  const SourceTreePtr& tree) {
  SourceFiles source;
  source.name_map = find_name_map(root, tree);
  if (!source.name_map) return std::nullopt;
  const auto& files = source.name_map->files;
  note_link(source.name_map->map_file, tree, source);
  for (std::size_t i = 0; i < files.size(); ++i) {
    note_link(files[i], tree, source);
    source.found.files.push_back({Rank(), "", files[i], static_cast<std::int64_t>(i), tree});
  }
  source.notes.push_back("using the " + counted(files.size(), "file") + " of " +
                         source.name_map->map_file.filename().string() + " as one whole model");
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
  for (const auto find : {find_parts_by_name_map, find_single_file}) {
    if (std::optional<SourceFiles> source = find(root, tree)) return std::move(*source);
  }
  refuse_plain_files(root, tree);
  refuse_torch_files(root, tree);
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
  SourceFiles source;
  // One file is what was asked for, whatever other parts lie beside it.
  source.found.files.push_back(
      {Rank(), step_in_file_name(rank_part_name(name).whole), path, -1, {}});
  if (!wanted.empty()) {
    source.notes.emplace_back("--src-pattern was not used: the source is one file");
  }
  return source;
}

}  // namespace reshardfs
