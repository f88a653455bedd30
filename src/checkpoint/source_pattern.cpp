// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/source_pattern.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "checkpoint/path_pattern.h"
#include "checkpoint/segments.h"
#include "checkpoint/step.h"
#include "storage/directory.h"

namespace reshardfs {
namespace {

// The last two are below the output directory of MindFormers. It saves the weights without the
// optimizer's states beside the whole checkpoint, so that the whole one comes first.
constexpr std::string_view kWeightsAlone = "checkpoint_network";
constexpr std::string_view kWholePattern = "checkpoint/rank_{rank}/*.ckpt";
constexpr std::string_view kWeightsPattern = "checkpoint_network/rank_{rank}/*.ckpt";
constexpr std::array<std::string_view, 6> kKnownPatterns = {
    "rank_{rank}/*.ckpt",  "node{rank}/*.ckpt", "ckpt_{rank}/*.ckpt",
    "*_rank_{rank}*.ckpt", kWholePattern,       kWeightsPattern};
constexpr std::string_view kCheckpointSuffix = ".ckpt";
constexpr std::string_view kSafetensorsSuffix = ".safetensors";

Error safetensors_error(const std::filesystem::path& path, const std::string& what) {
  return Error(ErrorKind::kUnsupported, what + "; sources in safetensors format are not supported")
      .in_file(path.string())
      .hint("give a set of .ckpt files");
}

bool holds_safetensors(const std::filesystem::path& root) {
  for (const DirectoryEntry& entry : list_directory(root)) {
    if (!entry.is_directory && entry.name.ends_with(kSafetensorsSuffix)) return true;
  }
  return std::any_of(kKnownPatterns.begin(), kKnownPatterns.end(), [&](std::string_view known) {
    known.remove_suffix(kCheckpointSuffix.size());
    const PathPattern pattern(std::string(known) + std::string(kSafetensorsSuffix));
    return !find_rank_files(root, pattern).files.empty();
  });
}

[[noreturn]] void throw_nothing_found(const std::filesystem::path& root,
                                      const std::vector<std::string>& patterns) {
  if (holds_safetensors(root)) {
    throw safetensors_error(root, "holds safetensors files, but no .ckpt files");
  }
  std::string looked_for;
  for (const std::string& pattern : patterns) {
    looked_for += (looked_for.empty() ? "" : ", ") + printable(pattern);
  }
  throw Error(ErrorKind::kMissing, "no rank's checkpoint was found; looked for " + looked_for)
      .in_file(root.string())
      .hint("say where the files are with --src-pattern, for example 'rank_{rank}/*.ckpt'");
}

void note_choice(const std::filesystem::path& root, SourceFiles& source) {
  if (source.pattern == kKnownPatterns.front()) return;
  std::string note = "took the files that match " + source.pattern;
  if (source.pattern == kWeightsPattern) {
    note += ", which hold the weights alone, without the optimizer's states";
  } else if (source.pattern == kWholePattern &&
             path_kind(root / kWeightsAlone) == PathKind::kDirectory) {
    note += ", and left " + std::string(kWeightsAlone) + " aside, which holds the weights alone";
  }
  source.notes.push_back(std::move(note));
}

}  // namespace

SourceFiles find_by_pattern(const std::filesystem::path& root, const std::string& wanted) {
  std::vector<std::string> patterns;
  if (wanted.empty()) {
    patterns.assign(kKnownPatterns.begin(), kKnownPatterns.end());
  } else {
    patterns.push_back(wanted);
  }
  for (const std::string& pattern : patterns) {
    RankFiles found = find_rank_files(root, PathPattern(pattern));
    if (found.files.empty()) continue;
    SourceFiles source{pattern, std::move(found), {}};
    if (wanted.empty()) note_choice(root, source);
    return source;
  }
  throw_nothing_found(root, patterns);
}

SourceFiles take_one_file(const std::filesystem::path& path, const std::string& wanted) {
  const std::string name = path.filename().string();
  if (name.ends_with(kSafetensorsSuffix)) throw safetensors_error(path, "is a safetensors file");
  SourceFiles source;
  // One file is what was asked for, whatever other parts lie beside it.
  source.found.files.push_back({0, step_in_file_name(segment_name(name).whole), path});
  if (!wanted.empty()) {
    source.notes.emplace_back("--src-pattern was not used: the source is one file");
  }
  return source;
}

}  // namespace reshardfs
