// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_stage0.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "checkpoint/deepspeed/joined_tensors.h"
#include "checkpoint/deepspeed/zero_facts.h"
#include "checkpoint/deepspeed/zero_layers.h"
#include "checkpoint/torch/archive_folder.h"
#include "checkpoint/torch/torch_ranks.h"
#include "storage/inputs.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "module";

/// What the file of a pipeline stage states.
struct PipelineStage {
  bool has_layers = false;  ///< in files of their own, whole
  std::optional<std::int64_t> tensor_world{};
  std::optional<std::int64_t> pipeline_world{};
  SaveFacts facts{};
  std::string folder{};  ///< see TorchArchive::folder()
};

PipelineStage read_stage(const TorchArchive& archive) {
  const PickleTree& tree = archive.tree();
  const PickleValue root = tree.root();
  const PickleValue degrees = tree.find(root, "checkpoint_parallel_dimensions");
  PipelineStage out;
  out.has_layers = tree.find(root, "param_shapes").is(PickleKind::kNone) &&
                   tree.find(root, kModule).is(PickleKind::kNone);
  out.tensor_world = tree.integer(tree.find(degrees, "tp_degree"));
  out.pipeline_world = tree.integer(tree.find(degrees, "pp_degree"));
  out.facts = zero_model_facts(archive);
  out.folder = archive.folder();
  return out;
}

/// Those of all stages, from 0.
void require_stages(const fs::path& directory, const ZeroStep& step,
                    const std::optional<std::int64_t>& stages) {
  const auto parts = static_cast<std::int64_t>(step.parts.size());
  const std::int64_t expected = stages.value_or(parts);
  if (step.parts.rbegin()->first + 1 == parts && parts == expected) return;
  throw Error(ErrorKind::kMissing,
              "has files of " + std::to_string(parts) + " of the " +
                  std::to_string(std::max(expected, step.parts.rbegin()->first + 1)) +
                  " stages of its pipeline")
      .in_file(directory.string())
      .hint(kBringAll);
}

bool is_whole(const TorchArchive& archive) {
  const PickleTree& tree = archive.tree();
  const PickleValue root = tree.root();
  const auto ranks = tree.integer(tree.find(root, "mp_world_size"));
  return tree.find(root, "param_shapes").is(PickleKind::kNone) &&
         tree.find(root, kModule).is(PickleKind::kDict) && (!ranks || *ranks == 1);
}

}  // namespace

std::optional<Discovery> read_without_zero(const fs::path& directory, const std::string& name,
                                           const SourceTreePtr& tree) {
  const ByteSourcePtr file = open_file(directory / name, tree);
  if (!read_archive(*file, is_whole)) return std::nullopt;
  CheckpointOptions options;
  options.state_key = kModule;
  TorchRanks ranks(directory, options, tree);
  ranks.open({{0, name}}, DTensors::kRefused);
  Discovery out = ranks.discovery();
  out.completeness.grounds.push_back("the only file of a run without ZeRO");
  note_other_step(directory, {{name, read_archive(*file, zero_model_facts)}}, out);
  out.notes.push_back("the optimizer's states in " + printable(name) +
                      " have no parameters' names, and are not read");
  return out;
}

std::optional<Discovery> read_layers_without_zero(const fs::path& directory, const ZeroStep& step,
                                                  const SourceTreePtr& tree) {
  LeftOfFiles left;
  std::vector<ZeroFile> facts;
  std::optional<std::int64_t> stages;
  for (const auto& [number, files] : step.parts) {
    if (files.model.size() != 1 || files.model_of_each_rank) return std::nullopt;
    const std::string& name = files.model.begin()->second;
    const ByteSourcePtr file = open_file(directory / name, tree);
    PipelineStage stage = read_archive(*file, read_stage);
    if (!stage.has_layers) return std::nullopt;
    record_open(directory / name, *file, tree);
    if (stage.tensor_world && *stage.tensor_world > 1) throw uncut_zero(directory, name);
    if (stage.pipeline_world) stages = stage.pipeline_world;
    facts.push_back({name, std::move(stage.facts)});
    left.files.emplace_back(directory / name, std::move(stage.folder));
  }
  require_stages(directory, step, stages);
  require_one_zero_save(directory, facts);
  std::vector<JoinedTensors> joined;
  joined.emplace_back(directory / step.layers.begin()->second);
  take_layers(directory, step.layers, tree, joined, left);
  std::vector<ModuleCopies> none;
  Discovery out = JoinedTensors::finish(std::move(joined), none);
  out.completeness.grounds.push_back("the files of layers of a run without ZeRO");
  note_other_step(directory, facts, out);
  out.completeness.doubts.push_back("no file states how many layers the pipeline has; " +
                                    counted(step.layers.size(), "file") + " are there");
  state_left(left, out);
  out.notes.push_back(
      "the optimizer's states, and its float32 of other types, have no parameters' names or no "
      "shapes, and are not read");
  return out;
}

}  // namespace reshardfs
