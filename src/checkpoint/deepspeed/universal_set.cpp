// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/universal_set.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/deepspeed/joined_tensors.h"
#include "checkpoint/deepspeed/universal_statement.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/set_format.h"
#include "checkpoint/source_links.h"
#include "checkpoint/torch/archive_folder.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kZero = "zero";
constexpr std::string_view kWeights = "fp32";
constexpr std::string_view kStepFile = "step";
constexpr std::string_view kStateExtension = ".pt";

/// "500" for "global_step500_universal".
std::optional<std::string> parse_universal_tag(std::string_view name) {
  constexpr std::string_view kBegin = "global_step";
  constexpr std::string_view kEnd = "_universal";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(kBegin.size());
  if (name.size() <= kEnd.size()) return std::nullopt;
  const auto step = parse_number(name.substr(0, name.size() - kEnd.size()));
  return step ? std::optional(std::to_string(*step)) : std::nullopt;
}

constexpr StepNames kUniversalTagNames{parse_universal_tag, {}, "latest_universal"};

/// The states in the directory of one parameter, without the extension.
/// @param has_step is set to whether the optimizer's step is there, too.
std::set<std::string> states_in(const fs::path& directory, const SourceTreePtr& tree,
                                char& has_step) {
  std::set<std::string> states;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    std::string_view name = entry.name;
    if (!entry.is_regular || !name.ends_with(kStateExtension)) continue;
    name.remove_suffix(kStateExtension.size());
    if (entry.is_link && refuses_links(tree)) throw link_refused(directory / entry.name);
    if (name == kStepFile) {
      has_step = 1;
    } else {
      states.emplace(name);
    }
  }
  return states;
}

/// The parameters in the order of their names; empty if the directory is no such checkpoint.
std::vector<std::string> parameters_in(const fs::path& directory, const SourceTreePtr& tree) {
  const fs::path zero = directory / kZero;
  if (path_kind(zero, tree) != PathKind::kDirectory) return {};
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : list_directory(zero, tree)) {
    if (entry.is_directory) names.push_back(entry.name);
  }
  std::sort(names.begin(), names.end());
  const bool is_one =
      !names.empty() && path_kind(zero / names.front() / "fp32.pt", tree) == PathKind::kOther;
  return is_one ? names : std::vector<std::string>();
}

class UniversalReader {
 public:
  UniversalReader(fs::path directory, std::vector<std::string> names, const SourceTreePtr& tree)
      : directory_(std::move(directory)),
        names_(std::move(names)),
        tree_(tree),
        joined_(directory_) {}

  Discovery read() {
    const UniversalStatement statement(directory_, tree_);
    of_zero([&] { statement.require_names(names_); });
    find_states();
    const std::size_t count = names_.size() * states_.size();
    std::vector<TorchTensor> tensors(count);
    std::vector<char> are_vocabularies(count);
    std::vector<ByteSourcePtr> files(count);
    parallel_for(
        count,
        [&](std::size_t i) {
          const std::string& state = states_[i / names_.size()];
          const std::string& name = names_[i % names_.size()];
          files[i] = open_file(path_of(name, state), tree_);
          tensors[i] = read_one(*files[i], are_vocabularies[i]);
          tensors[i].name = state == kWeights ? name : state + "." + name;
        },
        is_url(directory_) ? kRequestsAtOnce : 0);
    for (std::size_t i = 0; i < count; ++i) {
      of_file(i, [&] { require_shape(statement, tensors, i, are_vocabularies[i] != 0); });
    }
    require_step(statement);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t file = joined_.add_file(std::move(files[i]));
      joined_.add_whole(tensors[i], file);
    }
    // Nothing is shown of them, but they are files of the set.
    for (const ByteSourcePtr& file : statement.files()) joined_.add_file(file);
    Discovery out = std::move(joined_).finish(path_of(names_.front(), std::string(kWeights)));
    statement.state(out.completeness);
    return out;
  }

 private:
  fs::path path_of(const std::string& name, const std::string& state) const {
    return directory_ / kZero / name / (state + std::string(kStateExtension));
  }

  /// Every parameter must have those of the first one.
  void find_states() {
    std::vector<std::set<std::string>> all(names_.size());
    has_step_.resize(names_.size());
    parallel_for(
        names_.size(),
        [&](std::size_t i) {
          all[i] = states_in(directory_ / kZero / names_[i], tree_, has_step_[i]);
        },
        is_url(directory_) ? kRequestsAtOnce : 0);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] == all.front() && all[i].contains(std::string(kWeights))) continue;
      throw Error(ErrorKind::kMissing, "has other files for '" + printable(names_[i]) +
                                           "' than for '" + printable(names_.front()) + "'")
          .in_file((directory_ / kZero).string())
          .hint(
              "bring the missing ones: every parameter has fp32.pt and a file for each state of "
              "the optimizer");
    }
    states_.emplace_back(kWeights);
    for (const std::string& state : all.front()) {
      if (state != kWeights) states_.push_back(state);
    }
  }

  /// Names the file in what `work` throws.
  template <typename Work>
  void of_file(std::size_t number, Work&& work) const {
    try {
      work();
    } catch (Error& error) {
      throw error.in_file(
          path_of(names_[number % names_.size()], states_[number / names_.size()]).string());
    }
  }

  template <typename Work>
  void of_zero(Work&& work) const {
    try {
      work();
    } catch (Error& error) {
      throw error.in_file((directory_ / kZero).string());
    }
  }

  /// @param number of the tensor, with those of the weights first.
  void require_shape(const UniversalStatement& statement, const std::vector<TorchTensor>& tensors,
                     std::size_t number, bool is_vocabulary) const {
    const TorchTensor& tensor = tensors[number];
    if (number < names_.size()) {
      statement.require_shape({names_[number], tensor.shape, is_vocabulary});
      return;
    }
    const std::string& name = names_[number % names_.size()];
    const Shape& weight = tensors[number % names_.size()].shape;
    if (tensor.shape == weight) return;
    throw Error(ErrorKind::kBadInput, "has the shape " + to_string(tensor.shape) +
                                          ", but the parameter has the shape " + to_string(weight) +
                                          " in fp32.pt")
        .for_parameter(name)
        .hint("bring all files from one conversion");
  }

  /// All parameters must be of one step.
  void require_step(const UniversalStatement& statement) {
    std::vector<std::optional<std::int64_t>> steps(names_.size());
    std::vector<ByteSourcePtr> files(names_.size());
    parallel_for(
        names_.size(),
        [&](std::size_t i) {
          if (has_step_[i] == 0) return;
          files[i] = open_file(path_of(names_[i], std::string(kStepFile)), tree_);
          steps[i] = read_universal_step(*files[i]);
        },
        is_url(directory_) ? kRequestsAtOnce : 0);
    for (ByteSourcePtr& file : files) {
      if (file) joined_.add_file(std::move(file));
    }
    of_zero([&] {
      OneSave save;
      for (std::size_t i = 0; i < names_.size(); ++i) {
        if (!steps[i]) continue;
        const std::string file = names_[i] + "/step.pt";
        add_universal_step(save, file, *steps[i]);
        statement.require_step(*steps[i], file);
      }
    });
  }

  static TorchTensor read_one(const ByteSource& file, char& is_vocabulary) {
    return read_archive(file, [&](const TorchArchive& archive) {
      const PickleTree& tree = archive.tree();
      is_vocabulary = tree.boolean(tree.find(tree.root(), "vocab_tensor")) == true ? 1 : 0;
      const PickleValue value = tree.find(tree.root(), "param");
      if (archive.is_tensor(value)) return archive.tensor(value);
      throw Error(ErrorKind::kUnsupported,
                  "has no tensor 'param', as the files of a universal checkpoint have");
    });
  }

  fs::path directory_;
  std::vector<std::string> names_;   ///< of the parameters, ascending
  std::vector<std::string> states_;  ///< the weights first
  /// Which parameters have a step.pt. Not vector<bool>: its neighbours share a byte, and threads
  /// write them.
  std::vector<char> has_step_;
  const SourceTreePtr& tree_;
  JoinedTensors joined_;
};

/// Where `latest` names a step of ZeRO, too, that one is taken: it may be newer.
std::optional<StepDirectories> find_universal_tags(const fs::path& directory,
                                                   const SourceTreePtr& tree) {
  auto found = list_steps(directory, kUniversalTagNames, tree, /*needs_tracker=*/false);
  if (!found || found->directories.empty() || !found->tracked) return std::nullopt;
  if (path_kind(directory / "latest", tree) == PathKind::kOther) return std::nullopt;
  return found;
}

}  // namespace

std::optional<Discovery> discover_universal(const fs::path& directory,
                                            const CheckpointOptions& options,
                                            const SourceTreePtr& tree) {
  if (auto names = parameters_in(directory, tree); !names.empty()) {
    const std::string step = parse_universal_tag(directory_name(directory)).value_or("");
    require_step(directory, step, options.step);
    Discovery out = UniversalReader(directory, std::move(names), tree).read();
    out.step = step;
    if (!step.empty()) out.steps = {step};
    return out;
  }
  const auto found = find_universal_tags(directory, tree);
  if (!found) return std::nullopt;
  const ChosenStep chosen = choose_step(*found, options.step);
  auto names = parameters_in(chosen.directory, tree);
  if (names.empty()) return std::nullopt;
  Discovery out = UniversalReader(chosen.directory, std::move(names), tree).read();
  out.step = chosen.step;
  if (auto note = links_outside(directory, found->links)) out.notes.push_back(std::move(*note));
  note_other_steps(*found, options.step, out);
  return out;
}

std::optional<std::vector<StepInfo>> find_universal_steps(const fs::path& directory,
                                                          const SourceTreePtr& tree) {
  if (!parameters_in(directory, tree).empty()) {
    const auto step = parse_universal_tag(directory_name(directory));
    if (!step) return std::vector<StepInfo>();
    return std::vector<StepInfo>{{*step, {Rank()}, true, {directory}}};
  }
  const auto found = find_universal_tags(directory, tree);
  if (!found) return std::nullopt;
  std::vector<StepInfo> steps;
  for (const auto& [step, path] : found->directories) {
    if (!parameters_in(path, tree).empty()) {
      steps.push_back({step, {Rank()}, found->is_finished(step), {path}});
    }
  }
  if (steps.empty()) return std::nullopt;
  return steps;
}

}  // namespace reshardfs
