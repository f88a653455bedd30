// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/neighbours.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/file_name.h"
#include "base/text/glob.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/deepspeed/zero_names.h"
#include "checkpoint/megatron/rank_directory.h"
#include "checkpoint/recognition.h"
#include "checkpoint/series/series_names.h"
#include "checkpoint/series/step_sets.h"
#include "checkpoint/set_format.h"
#include "checkpoint/side_files.h"
#include "format/foreign_content.h"
#include "format/input_format.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostLookedInto = 64;  ///< files that are opened, and directories

/// "global_step#_universal": a name with each number replaced.
std::string form_of(std::string_view name) {
  std::string form;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) {
      form += c;
    } else if (form.empty() || form.back() != '#') {
      form += '#';
    }
  }
  return form;
}

/// Directories in which a set is looked for when the one above them is named; those of steps have
/// step_of_folder().
bool has_set_name(std::string_view name) {
  constexpr std::array<std::string_view, 15> kForms{"iter_#",       "iteration_#",
                                                    "global_step#", "global_step#_universal",
                                                    "rank_#",       "rank#",
                                                    "node#",        "ckpt_#",
                                                    "checkpoint",   "checkpoint_network",
                                                    "weights",      "release",
                                                    "zero",         "pytorch_model_fsdp_#",
                                                    "dist_ckpt"};
  return std::find(kForms.begin(), kForms.end(), form_of(name)) != kForms.end() ||
         step_of_folder(name).has_value();
}

/// The directory's name without what marks a save that has not ended: "iter_0000010_tmp",
/// "tmp-checkpoint-500", ".step-300", "step-300.staging", "step_300.orbax-checkpoint-tmp-1".
/// nullopt: it has no such mark, or is no directory of a step.
std::optional<std::string> unfinished_step(std::string_view name) {
  constexpr std::array<std::string_view, 8> kEnds{
      "_tmp", "-tmp", ".tmp", ".part", ".incomplete", "_incomplete", ".staging", "_staging"};
  constexpr std::array<std::string_view, 5> kBeginnings{"_tmp_", "tmp-", "tmp_", "tmp.", "."};
  constexpr std::string_view kOrbax = ".orbax-checkpoint-tmp";
  if (const std::size_t at = name.find(kOrbax); at != std::string_view::npos) {
    name = name.substr(0, at);
    return has_set_name(name) ? std::optional(std::string(name)) : std::nullopt;
  }
  for (const std::string_view end : kEnds) {
    if (!name.ends_with(end)) continue;
    name.remove_suffix(end.size());
    return has_set_name(name) ? std::optional(std::string(name)) : std::nullopt;
  }
  for (const std::string_view begin : kBeginnings) {
    if (!name.starts_with(begin)) continue;
    name.remove_prefix(begin.size());
    return has_set_name(name) ? std::optional(std::string(name)) : std::nullopt;
  }
  return std::nullopt;
}

bool has_own_name(const SetFormat& format, const std::string& name) {
  return std::any_of(format.own.begin(), format.own.end(), [&](std::string_view glob) {
    return !glob.empty() && glob_match(std::string(glob), name);
  });
}

/// What one directory has beside a set.
class Neighbours {
 public:
  Neighbours(const fs::path& directory, const SourceTreePtr& tree, const NeighbourHints& hints,
             const Discovery& set)
      : directory_(directory),
        tree_(tree),
        hints_(hints),
        set_(set),
        entries_(list_directory(directory, tree)) {
    for (const FoundFile& file : set.files) use(file.path);
    for (const FoundFile& file : set.missing) use(file.path);
    for (const std::string& name : used_) forms_.insert(form_of(without_breakpoint(name)));
    is_pipeline_ = std::any_of(entries_.begin(), entries_.end(), [](const DirectoryEntry& entry) {
      return entry.name == "model_index.json";
    });
    for (const DirectoryEntry& entry : entries_) {
      const bool is_hidden = entry.name.starts_with('.');
      if (is_own(entry) || (is_hidden && !unfinished_step(entry.name))) continue;
      if (entry.is_directory && !(entry.is_link && refuses_links(tree_)))
        look_at_directory(entry.name);
      if (entry.is_regular) look_at_file(entry.name);
    }
  }

  /// @param prefix of the names: empty, or a path with '/' at its end.
  void add_to(std::vector<std::string>& lines, const std::string& prefix) const {
    const auto add = [&](const Names& names, const std::string& what, const std::string& advice) {
      if (!names.empty()) lines.push_back(what + list(names, prefix) + advice);
    };
    add(sets_,
        "other checkpoints beside the model are not read: ", "; name one as the source to read it");
    add(optimizer_, "states of the optimizer beside the model are not read: ", "");
    add(adapters_, "an adapter beside the model is not read: ",
        "; merge it with its model first, with merge_and_unload() of peft");
    add(unfinished_, "saves that have not ended are not read: ", "");
  }

 private:
  /// By their form: the first name, and how many there are.
  using Names = std::map<std::string, std::pair<std::string, std::size_t>>;

  static void add_name(Names& names, const std::string& name) {
    ++names.try_emplace(form_of(name), name, 0).first->second.second;
  }

  static std::string list(const Names& names, const std::string& prefix) {
    constexpr std::size_t kShown = 5;
    std::string text;
    std::size_t shown = 0;
    for (const auto& [form, name] : names) {
      if (shown++ == kShown) break;
      text += (text.empty() ? "'" : ", '") + printable(prefix + name.first) + "'";
      if (name.second > 1) text += " and " + std::to_string(name.second - 1) + " like it";
    }
    if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
    return text;
  }

  void use(const fs::path& file) {
    const fs::path inside = file.lexically_relative(directory_);
    if (!inside.empty() && *inside.begin() != "..") used_.insert(inside.begin()->string());
  }

  /// Whether it belongs to the set, though no table or index lists it: the files and directories of
  /// its other ranks and steps.
  bool is_own(const DirectoryEntry& entry) const {
    if (used_.contains(entry.name)) return true;
    // MindSpore Transformers saves the same weights there, without the optimizer's states.
    if (entry.name == "checkpoint_network" && used_.contains("checkpoint")) return true;
    const bool of_one_form = forms_.contains(form_of(without_breakpoint(entry.name)));
    if (set_.format == nullptr) return of_one_form && !hints_.is_whole;
    if (entry.is_directory && of_one_form) return true;
    const bool is_own_step = set_.format->kind == "steps" && step_of_folder(entry.name);
    return is_own_step || has_own_name(*set_.format, entry.name);
  }

  void look_at_file(const std::string& name) {
    const bool safetensors = name.ends_with(".safetensors");
    if (!safetensors && !name.ends_with(".ckpt") && !name.ends_with(".distcp") &&
        !has_torch_name(name)) {
      return;
    }
    if (is_named(name)) return;
    switch (side_file(name)) {
      case SideFile::kOptimizer:
        return add_name(optimizer_, name);
      case SideFile::kAdapter:
        return add_name(adapters_, name);
      case SideFile::kRunState:
        return;
      case SideFile::kNone:
        break;
    }
    if (safetensors || begins_like_checkpoint(name)) add_name(sets_, name);
  }

  /// Whether another warning names the file, or the index that it belongs to.
  bool is_named(const std::string& name) const {
    return std::any_of(hints_.named.begin(), hints_.named.end(), [&](const std::string& named) {
      if (!is_index_name(named)) return named == name;
      const fs::path whole = named.substr(0, named.find(".index"));
      return name.starts_with(whole.stem().string()) && name.ends_with(whole.extension().string());
    });
  }

  bool begins_like_checkpoint(const std::string& name) {
    if (is_url(directory_) || looked_into_++ >= kMostLookedInto) return true;
    try {
      return is_checkpoint_content(*open_file(directory_ / name, tree_));
    } catch (const Error&) {
      return false;
    }
  }

  void look_at_directory(const std::string& name) {
    if (unfinished_step(name)) return add_name(unfinished_, name + "/");
    // steps_beside_model() names them.
    if (set_.format == nullptr && hints_.is_whole && step_of_folder(name)) return;
    const bool optimizer = side_file(name) == SideFile::kOptimizer;
    const bool known = optimizer || is_pipeline_ || has_set_name(name);
    if (!(known && is_set(name)) && !has_parts(name)) return;
    add_name(optimizer ? optimizer_ : sets_, name + "/");
  }

  bool is_set(const std::string& name) {
    if (is_url(directory_)) return true;
    return looked_into_++ < kMostLookedInto && is_checkpoint(directory_ / name);
  }

  /// Whether a directory of any name has the files of a distributed save.
  bool has_parts(const std::string& name) {
    if (is_url(directory_) || looked_into_++ >= kMostLookedInto) return false;
    try {
      const std::vector<DirectoryEntry> below = list_directory(directory_ / name, tree_);
      return std::any_of(below.begin(), below.end(), [](const DirectoryEntry& entry) {
        return entry.name.ends_with(".distcp") || entry.name.starts_with("model_world_size_") ||
               parse_mp_rank(entry.name) || parse_zero_name(entry.name);
      });
    } catch (const Error&) {
      return false;
    }
  }

  const fs::path& directory_;
  const SourceTreePtr& tree_;
  const NeighbourHints& hints_;
  const Discovery& set_;
  std::vector<DirectoryEntry> entries_;
  std::set<std::string> used_;   ///< the entries with files of the set
  std::set<std::string> forms_;  ///< of these
  bool is_pipeline_ = false;
  std::size_t looked_into_ = 0;
  Names sets_;
  Names optimizer_;
  Names adapters_;
  Names unfinished_;
};

/// The directory of the chosen step, where the set's kind has one: relative to the source.
fs::path step_directory(const fs::path& source, const Discovery& set) {
  if (set.format == nullptr || set.format->kind == "steps" || set.files.empty()) return {};
  const fs::path inside = set.files.front().path.lexically_relative(source).parent_path();
  if (inside.empty() || *inside.begin() == "..") return {};
  auto part = inside.begin();
  fs::path directory = *part;
  if (has_own_name(*set.format, directory.string())) return {};  // the step itself was named
  if (directory == "checkpoint" && ++part != inside.end()) directory /= *part;
  return directory;
}

void add_neighbours(const fs::path& directory, const std::string& prefix, const SourceTreePtr& tree,
                    const NeighbourHints& hints, Discovery& out) {
  try {
    Neighbours(directory, tree, hints, out).add_to(out.completeness.doubts, prefix);
  } catch (const Error&) {
    // A server that gives no lists, or a directory that may not be listed: the set itself is read.
  }
}

}  // namespace

void note_neighbours_in(const fs::path& directory, const SourceTreePtr& tree, Discovery& out) {
  add_neighbours(directory, "", tree, {}, out);
}

void note_neighbours(const fs::path& source, const CheckpointOptions& options,
                     const SourceTreePtr& tree, const NeighbourHints& hints, Discovery& out) {
  // With a pattern or a prefix, the user has chosen among the files.
  if (!options.pattern.empty() || !options.prefix.empty()) return;
  if (path_kind(source, options.listed) != PathKind::kDirectory) return;
  if (hints.is_whole) {
    auto steps = steps_beside_model(source, tree);
    if (steps) out.completeness.doubts.push_back(std::move(*steps));
  }
  add_neighbours(source, "", tree, hints, out);
  const fs::path step = step_directory(source, out);
  if (!step.empty()) add_neighbours(source / step, step.string() + "/", tree, hints, out);
}

}  // namespace reshardfs
