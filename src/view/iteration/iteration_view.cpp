// SPDX-License-Identifier: Apache-2.0
/// iteration/: what MindSpore Transformers would have saved under the destination strategy, as its
/// Checkpoint 2.0. A directory for the step, in which every rank has a file of weights and one of
/// the optimizer, metadata.json and common.json; beside it the tracker.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/iteration/iteration_names.h"
#include "checkpoint/series/step_directories.h"
#include "conversion/completeness.h"
#include "format/mindformers/iteration_common.h"
#include "format/mindformers/iteration_metadata_text.h"
#include "storage/inputs.h"
#include "storage/local/linkless_tree.h"
#include "view/files/scalar_value.h"
#include "view/files/text_file.h"
#include "view/iteration/saved_parameters.h"
#include "view/view.h"

namespace reshardfs {
namespace {

/// The state of training when the source was saved, which MindSpore Transformers' Checkpoint 2.0
/// keeps beside the parameters.
struct TrainingState {
  std::int64_t step = 0;
  std::string common;              ///< the text of common.json
  std::vector<std::string> notes;  ///< its origin, and what it lacks
};

constexpr std::uint64_t kMaxStateBytes = 65536;

using Values = std::map<std::string, CommonValue, std::less<>>;

/// The value of a parameter of one element, if it is of a type that trainers count with.
std::optional<CommonValue> scalar(const TargetParameter& parameter) {
  if (parameter.treatment != Treatment::kKeep || !parameter.grid->complete()) return std::nullopt;
  return scalar_value(parameter.grid->cell(0));
}

Values values_of(const TargetTable& target) {
  Values values;
  for (const TargetParameter& parameter : target.parameters()) {
    if (std::find(kCommonKeys.begin(), kCommonKeys.end(), parameter.name) == kCommonKeys.end()) {
      continue;
    }
    if (const auto value = scalar(parameter)) values.emplace(parameter.name, *value);
  }
  return values;
}

std::optional<std::int64_t> count_in(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  if (found == values.end()) return std::nullopt;
  const auto* count = std::get_if<std::int64_t>(&found->second);
  return count != nullptr && *count >= 0 ? std::optional(*count) : std::nullopt;
}

/// "50" of "9_50": the step in its epoch.
std::optional<std::int64_t> last_number(const std::string& step) {
  const std::size_t end = step.find_last_not_of("0123456789");
  return parse_number(std::string_view(step).substr(end == std::string::npos ? 0 : end + 1));
}

/// That of the source, if it has one that can be passed on.
std::optional<std::string> own_common(const ViewContext& context,
                                      const std::filesystem::path& directory,
                                      std::vector<std::string>& notes) {
  const std::filesystem::path path = directory / kIterationCommon;
  const SourceTreePtr tree = recording(
      linkless_tree_of(context.options.source.no_symlinks ? context.options.source.path : "", path),
      context.inputs);
  if (path_kind(path, tree) == PathKind::kMissing) return std::nullopt;
  std::string text = read_small_file(path, kMaxStateBytes, tree);
  if (is_common_json(text)) return text;
  notes.push_back("'" + printable(path.native()) +
                  "' is not in the form that MindSpore Transformers reads: iteration/ has its own");
  return std::nullopt;
}

/// Reads the source's own common.json. Without one it uses the step in the file names, and the
/// scalars that trainers save among the parameters.
/// @throws what the source throws.
TrainingState training_state(const ViewContext& context) {
  TrainingState state;
  const CheckpointSet& checkpoint = context.target->source().checkpoint();
  const RankFile& file = checkpoint.files().front();
  const bool own_format = parse_iteration_file(file.path.filename().string()).has_value();
  auto step = own_format ? last_number(checkpoint.step()) : std::nullopt;
  std::optional<std::string> common;
  if (own_format) common = own_common(context, file.path.parent_path(), state.notes);
  if (step && common) return {*step, std::move(*common), std::move(state.notes)};
  Values values = values_of(*context.target);
  if (!step) step = count_in(values, "global_step");
  if (!step) step = count_in(values, "step_num");
  if (!step) step = last_number(checkpoint.step());
  state.step = step.value_or(0);
  if (common) {
    state.common = std::move(*common);
    return state;
  }
  if (step) {
    values.try_emplace("step_num", *step);
    values.try_emplace("global_step", *step);
  } else {
    state.notes.emplace_back("iteration/ has step 0, because the source does not state its step");
  }
  state.common = common_json(values);
  std::string lacking;
  for (const std::string_view key : {"epoch_num", "step_num", "global_step", "global_batch_size"}) {
    if (values.contains(key)) continue;
    lacking += (lacking.empty() ? "" : ", ") + std::string(key);
  }
  if (!lacking.empty()) {
    state.notes.push_back("iteration/: the source does not state " + lacking +
                          ", which MindSpore Transformers needs to resume training; loading "
                          "weights does not need them");
  }
  return state;
}

constexpr std::string_view kRoot = "iteration/";

class MetadataFile final : public VirtualFile {
 public:
  /// @param table what the text's names refer to.
  MetadataFile(std::shared_ptr<const TargetTable> table, IterationMetadataText text)
      : table_(std::move(table)), text_(std::move(text)) {}

  std::uint64_t size() const override { return text_.size(); }
  Effort effort() const noexcept override { return Effort::kComputes; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    text_.read_at(offset, out);
  }

 private:
  std::shared_ptr<const TargetTable> table_;
  IterationMetadataText text_;
};

/// A set of the same format keeps its files' prefix.
std::string prefix_of(const CheckpointSet& checkpoint) {
  const auto name = parse_iteration_file(checkpoint.files().front().path.filename().string());
  return name ? name->prefix : std::string();
}

MetadataForm form_of(IterationRelease release) {
  return release == IterationRelease::k20 ? MetadataForm::kIndented : MetadataForm::kOneLine;
}

class SetBuilder {
 public:
  explicit SetBuilder(const ViewContext& context)
      : context_(context),
        state_(training_state(context)),
        set_(saved_set(*context.target, context.model.state_prefixes)),
        prefix_(prefix_of(context.target->source().checkpoint())),
        directory_(fmt::format("{}iteration_{:08}/", kRoot, state_.step)),
        with_tensors_(safetensors_common(context, SafetensorsKind::kMindSpores, "ms")) {}

  std::vector<OutputFile> build() {
    if (set_.members.empty()) {
      throw Error(ErrorKind::kMissing, "the target has no parameter to save");
    }
    for (const bool of_optimizer : {false, true}) add_rank_files(of_optimizer);
    const std::int64_t ranks = context_.target->rank_count();
    if (ranks > 1) {
      IterationMetadataText text(saved_parameters(*context_.target, set_), prefix_, ranks,
                                 form_of(context_.options.iteration_release));
      add(directory_ + std::string(kIterationMetadata),
          std::make_shared<MetadataFile>(context_.target, std::move(text)));
    }
    add(directory_ + std::string(kIterationCommon), std::make_shared<TextFile>(state_.common));
    add(std::string(kRoot) + std::string(kIterationTracker),
        std::make_shared<TextFile>(std::to_string(state_.step)));
    report();
    return std::move(files_);
  }

 private:
  void add(std::string path, std::shared_ptr<const VirtualFile> file) {
    files_.push_back({std::move(path), std::move(file)});
  }

  void add_rank_files(bool of_optimizer) {
    std::vector<const TargetParameter*> all;
    for (const SavedSet::Member& member : set_.members) {
      if (member.of_optimizer == of_optimizer) all.push_back(member.parameter);
    }
    if (of_optimizer && all.empty()) return;
    for (const Rank rank : context_.ranks) {
      std::vector<const TargetParameter*> own = all;
      std::erase_if(own, [&](const TargetParameter* parameter) {
        return !context_.target->has(*parameter, rank);
      });
      const auto& common = own.empty() ? without_tensors_ : with_tensors_;
      add(directory_ +
              iteration_file_name(prefix_, of_optimizer, rank, context_.target->rank_count()),
          std::make_shared<SafetensorsFile>(context_.target, rank, std::move(own), common));
    }
  }

  void report() {
    for (std::string& note : state_.notes) context_.warnings.push_back(std::move(note));
    if (!set_.unlisted.empty()) {
      context_.warnings.push_back(
          "left out of iteration/, because MindSpore Transformers reads only what metadata.json "
          "lists: " +
          name_list(set_.unlisted));
    }
    const auto shown = static_cast<std::int64_t>(context_.ranks.size());
    if (shown != context_.target->rank_count()) {
      context_.warnings.emplace_back(
          "iteration/ has only the files of --ranks, but its metadata.json lists all ranks");
    }
  }

  const ViewContext& context_;
  TrainingState state_;
  SavedSet set_;
  std::string prefix_;
  std::string directory_;
  std::shared_ptr<const SafetensorsFile::Common> with_tensors_;
  /// A file without tensors has no metadata either.
  std::shared_ptr<const SafetensorsFile::Common> without_tensors_ =
      std::make_shared<const SafetensorsFile::Common>();
  std::vector<OutputFile> files_;
};

}  // namespace

std::vector<OutputFile> iteration_view(const ViewContext& context) {
  require_complete(*context.target, context.ranks);
  return SetBuilder(context).build();
}

}  // namespace reshardfs
