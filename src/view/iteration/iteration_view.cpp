// SPDX-License-Identifier: Apache-2.0
/// iteration/: what MindSpore Transformers would have saved under the destination strategy, as its
/// Checkpoint 2.0. A directory for the step, in which every rank has a file of weights and one of
/// the optimizer, metadata.json and common.json; beside it the tracker.
#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/iteration/iteration_names.h"
#include "checkpoint/series/step_directories.h"
#include "conversion/completeness.h"
#include "format/mindformers/iteration_metadata_text.h"
#include "view/files/text_file.h"
#include "view/iteration/saved_parameters.h"
#include "view/iteration/training_state.h"
#include "view/view.h"

namespace reshardfs {
namespace {

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

class SetBuilder {
 public:
  explicit SetBuilder(const ViewContext& context)
      : context_(context),
        state_(training_state(context)),
        set_(saved_set(*context.target, context.options.source.state_prefixes)),
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
      IterationMetadataText text(saved_parameters(*context_.target, set_), prefix_, ranks);
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
