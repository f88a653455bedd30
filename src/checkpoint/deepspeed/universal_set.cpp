// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/universal_set.h"

#include <algorithm>
#include <map>
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
#include "checkpoint/deepspeed/module_copies.h"
#include "checkpoint/deepspeed/universal_statement.h"
#include "checkpoint/deepspeed/zero_names.h"
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
        joined_(path_of(names_.front(), std::string(kWeights))) {}

  Discovery read() {
    UniversalStatement statement(directory_, tree_);
    in_file(directory_ / kZero, [&] { statement.require_names(names_); });
    leave_to_module(statement);
    find_states();
    std::vector<Read> all = parts();
    parallel_for(
        all.size(), [&](std::size_t i) { read_part(all[i], statement); },
        is_url(directory_) ? kRequestsAtOnce : 0);
    std::map<std::string_view, const Shape*> weights;
    for (const Read& part : all) {
      if (part.is_weight()) weights.emplace(names_[part.name], &part.tensor.shape);
    }
    for (const Read& part : all) {
      in_file(path_of(names_[part.name], part.state),
              [&] { require_shape(statement, part, *weights.at(names_[part.name])); });
    }
    require_step(statement);
    for (Read& part : all) {
      joined_.add_whole(part.tensor, joined_.add_file(std::move(part.file)),
                        part.is_weight() ? std::string() : part.state);
    }
    // Nothing else is shown of them, but they are files of the set.
    for (ZeroModelFile& model : statement.files()) model.number = joined_.add_file(model.file);
    if (statement.has_module()) {
      in_file(directory_, [&] {
        take_untrained(statement.files(), statement.is_stage3(), joined_);
        take_aliases(statement.files().front(), joined_);
      });
      const ZeroModelFile& model = statement.files().front();
      in_file(directory_ / model.name, [&] {
        if (statement.is_stage3()) return;
        for (const TorchTensor& copy : model.states.copies) joined_.add_copy(copy, model.number);
      });
    }
    std::vector<JoinedTensors> joined;
    joined.push_back(std::move(joined_));
    std::vector<ModuleCopies> copies;
    Discovery out = JoinedTensors::finish(std::move(joined), copies);
    judge_copies(take_copies(std::move(copies), out), out);
    statement.state(out.completeness);
    note_other_step(directory_, statement.facts(), out);
    SavedNames files;
    for (const ZeroModelFile& model : statement.files()) {
      files.emplace_back(directory_ / model.name, model.states.folder);
    }
    state_saved_names(files, out.completeness);
    if (statement.has_module()) note_refused(statement.files().front(), out);
    note(out);
    return out;
  }

 private:
  /// A file of a parameter.
  struct Read {
    std::size_t name = 0;  ///< in names_
    std::string state{};
    ByteSourcePtr file{};
    TorchTensor tensor{};
    bool is_vocabulary = false;

    bool is_weight() const { return state == kWeights; }
  };

  /// ds_to_universal.py takes the order of the parameters from param_slice_mappings, which
  /// round_robin_gradients makes wrong.
  void judge_copies(const CopyEvidence& evidence, Discovery& out) const {
    if (evidence.differing.empty()) return;
    const std::string names = name_list(evidence.differing);
    if (2 * evidence.different < evidence.elements) {
      out.warnings.push_back("`module` differs from fp32.pt, which is shown: " + names);
      return;
    }
    throw Error(ErrorKind::kBadInput,
                "was converted from a run with round_robin_gradients, or of another save: fp32.pt, "
                "rounded, differs from 'module' in " +
                    names)
        .in_file(directory_.string())
        .hint("name the directory of the ZeRO files as the source, which reshardfs reads itself");
  }

  fs::path path_of(const std::string& name, const std::string& state) const {
    return directory_ / kZero / name / (state + std::string(kStateExtension));
  }

  /// Since 0.19.8, there are directories of buffers, of frozen parameters and of other names, too,
  /// which have 16 bits made float32. The files of model states have what the run had.
  void leave_to_module(const UniversalStatement& statement) {
    if (!statement.has_module()) return;
    const ZeroModelStates& model = statement.files().front().states;
    std::set<std::string_view> left;
    for (const auto& [alias, name] : model.aliases) left.insert(alias);
    for (const TorchTensor& tensor : statement.is_stage3() ? model.buffers : model.others) {
      left.insert(tensor.name);
    }
    for (const RefusedTensor& buffer : model.refused_buffers) left.insert(buffer.name);
    for (const ZeroShape& frozen : model.frozen) left.insert(frozen.name);
    std::erase_if(names_, [&](const std::string& name) {
      return left.contains(name) && statement.shape_of(name) == nullptr;
    });
    for (const std::string& name : names_) {
      if (statement.shape_of(name) == nullptr) unstated_.push_back(name);
    }
    if (!names_.empty()) return;
    throw Error(ErrorKind::kBadInput, "has no parameter that was trained")
        .in_file((directory_ / kZero).string());
  }

  void find_states() {
    found_.resize(names_.size());
    has_step_.resize(names_.size());
    parallel_for(
        names_.size(),
        [&](std::size_t i) {
          found_[i] = states_in(directory_ / kZero / names_[i], tree_, has_step_[i]);
        },
        is_url(directory_) ? kRequestsAtOnce : 0);
    std::set<std::set<std::string>> kinds;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (!found_[i].contains(std::string(kWeights))) {
        require_files(names_[i], {std::string(kWeights)});
      }
      if (found_[i].size() > 1) kinds.insert(found_[i]);
    }
    // Parameters of several optimizers have different states, and some none. But where one has a
    // part of another's, files are missing.
    for (std::size_t i = 0; i < found_.size(); ++i) {
      if (found_[i].size() == 1) {
        if (!kinds.empty()) stateless_.push_back(names_[i]);
        continue;
      }
      for (const std::set<std::string>& kind : kinds) {
        const bool is_part =
            kind.size() > found_[i].size() &&
            std::includes(kind.begin(), kind.end(), found_[i].begin(), found_[i].end());
        if (is_part) require_files(names_[i], kind);
      }
    }
  }

  [[noreturn]] void require_files(const std::string& name,
                                  const std::set<std::string>& states) const {
    std::string files;
    for (const std::string& state : states) {
      files += (files.empty() ? "" : ", ") + printable(state) + std::string(kStateExtension);
    }
    throw Error(ErrorKind::kMissing, "has other files for '" + printable(name) + "' than " + files)
        .in_file((directory_ / kZero).string())
        .hint("bring the missing ones");
  }

  /// Weights first, and then the states.
  std::vector<Read> parts() const {
    std::vector<Read> all;
    std::set<std::string> states;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      all.push_back({i, std::string(kWeights), nullptr, {}, false});
      states.insert(found_[i].begin(), found_[i].end());
    }
    states.erase(std::string(kWeights));
    for (const std::string& state : states) {
      for (std::size_t i = 0; i < names_.size(); ++i) {
        if (found_[i].contains(state)) all.push_back({i, state, nullptr, {}, false});
      }
    }
    return all;
  }

  void read_part(Read& part, const UniversalStatement& statement) const {
    const std::string& name = names_[part.name];
    const fs::path path = path_of(name, part.state);
    part.file = open_file(path, tree_);
    part.tensor = read_archive(*part.file, [&](const TorchArchive& archive) {
      const PickleTree& tree = archive.tree();
      const std::string saved(archive.folder());
      if (saved != part.state && found_[part.name].contains(saved)) {
        throw Error(ErrorKind::kBadInput, "was saved as '" + printable(saved) + ".pt'")
            .hint("bring the files of one conversion, under their own names");
      }
      part.is_vocabulary = tree.boolean(tree.find(tree.root(), "vocab_tensor")) == true;
      const PickleValue value = tree.find(tree.root(), "param");
      if (archive.is_tensor(value)) return archive.tensor(value);
      if (archive.is_tensor(tree.root())) {
        return shaped(archive.tensor(tree.root()), statement.shape_of(name));
      }
      throw Error(ErrorKind::kUnsupported,
                  "has no tensor 'param', as the files of a universal checkpoint have");
    });
    part.tensor.name = name;
  }

  /// Of stage 3, a file has the elements alone.
  static TorchTensor shaped(TorchTensor tensor, const Shape* shape) {
    if (shape == nullptr) {
      throw Error(ErrorKind::kUnsupported,
                  "has the elements of a parameter whose shape no file states");
    }
    if (tensor.shape.size() == 1 && is_contiguous(tensor) &&
        tensor.shape.front() == element_count(*shape)) {
      tensor.shape = *shape;
      tensor.strides.assign(shape->size(), 1);
      for (std::size_t d = shape->size(); d-- > 1;) {
        tensor.strides[d - 1] = tensor.strides[d] * (*shape)[d];
      }
    }
    return tensor;
  }

  void note(Discovery& out) const {
    if (!stateless_.empty()) {
      out.warnings.push_back(
          "without states of the optimizer, like parameters that never had a gradient: " +
          name_list(stateless_));
    }
    if (!unstated_.empty()) {
      out.warnings.push_back(
          "no file states that these are trained, and their types may be converted: " +
          name_list(unstated_));
    }
  }

  /// Names the file in what `work` throws.
  template <typename Work>
  static void in_file(const fs::path& file, Work&& work) {
    try {
      work();
    } catch (Error& error) {
      throw error.in_file(file.string());
    }
  }

  void require_shape(const UniversalStatement& statement, const Read& part,
                     const Shape& weight) const {
    const std::string& name = names_[part.name];
    if (part.is_weight()) {
      return statement.require_shape({name, part.tensor.shape, part.is_vocabulary});
    }
    if (part.tensor.shape == weight) return;
    throw Error(ErrorKind::kBadInput, "has the shape " + to_string(part.tensor.shape) +
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
    in_file(directory_ / kZero, [&] {
      OneSave save;
      for (std::size_t i = 0; i < names_.size(); ++i) {
        if (!steps[i]) continue;
        const std::string file = names_[i] + "/step.pt";
        add_universal_step(save, file, *steps[i]);
        statement.require_step(*steps[i], file);
      }
    });
  }

  fs::path directory_;
  std::vector<std::string> names_;              ///< of the parameters, ascending
  std::vector<std::set<std::string>> found_{};  ///< the states of each, the weights among them
  std::vector<std::string> stateless_{};        ///< those without any, where others have some
  std::vector<std::string> unstated_{};         ///< that no file lists
  /// Which parameters have a step.pt. Not vector<bool>: its neighbours share a byte, and threads
  /// write them.
  std::vector<char> has_step_;
  const SourceTreePtr& tree_;
  JoinedTensors joined_;
};

/// Whether `latest` names a step of ZeRO, too: that one is taken, as it may be newer.
bool has_zero_tracker(const fs::path& directory, const SourceTreePtr& tree) {
  return path_kind(directory / "latest", tree) == PathKind::kOther;
}

std::optional<StepDirectories> find_universal_tags(const fs::path& directory,
                                                   const SourceTreePtr& tree) {
  auto found = list_steps(directory, kUniversalTagNames, tree, /*needs_tracker=*/false);
  if (!found || found->directories.empty() || !found->tracked) return std::nullopt;
  if (has_zero_tracker(directory, tree)) return std::nullopt;
  return found;
}

/// The directory that `latest_universal` names, as programs may choose it, if it has a checkpoint.
std::optional<fs::path> own_universal_tag_of(const fs::path& directory, const SourceTreePtr& tree) {
  const auto named = tracked_directory(directory, kUniversalTagNames, tree);
  if (!named || has_zero_tracker(directory, tree)) return std::nullopt;
  return parameters_in(*named, tree).empty() ? std::nullopt : named;
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
  if (options.step == kLatestStep) {
    if (const auto own = own_universal_tag_of(directory, tree)) {
      return discover_universal(*own, options, tree);
    }
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
  if (!found) {
    return own_universal_tag_of(directory, tree) ? std::optional(std::vector<StepInfo>())
                                                 : std::nullopt;
  }
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
