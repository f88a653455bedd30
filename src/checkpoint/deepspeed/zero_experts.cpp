// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_experts.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/deepspeed/joined_tensors.h"
#include "checkpoint/deepspeed/zero_facts.h"
#include "checkpoint/deepspeed/zero_layers.h"
#include "checkpoint/deepspeed/zero_part.h"
#include "checkpoint/deepspeed/zero_states.h"
#include "checkpoint/torch/archive_folder.h"
#include "storage/inputs.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

struct ModelFile {
  DictTensors tensors{};
  std::vector<std::int64_t> experts{};  ///< how many each layer has
};

Error of_other_parallelism() {
  return Error(ErrorKind::kUnsupported,
               "was saved by DeepSpeed with experts beside tensor or pipeline parallelism, or by a "
               "release that has other files of experts")
      .hint("load it with DeepSpeed, and save its weights");
}

ModelFile read_model(const TorchArchive& archive) {
  const PickleTree& tree = archive.tree();
  const PickleValue root = tree.root();
  if (tree.count(tree.find(root, "ds_autoep_layers")) > 0) {
    throw Error(ErrorKind::kUnsupported, "was saved with DeepSpeed's AutoEP, which is not read");
  }
  const PickleValue degrees = tree.find(root, "checkpoint_parallel_dimensions");
  for (const PickleValue ranks : {tree.find(root, "mp_world_size"), tree.find(degrees, "tp_degree"),
                                  tree.find(degrees, "pp_degree")}) {
    const auto count = tree.integer(ranks);
    if (count && *count != 1) throw of_other_parallelism();
  }
  ModelFile out;
  const PickleValue module = tree.find(root, "module");
  if (!module.is(PickleKind::kDict)) {
    throw Error(ErrorKind::kUnsupported, "has no 'module' with the model beside its experts");
  }
  out.tensors = named_tensors(archive, module);
  const PickleValue counts = tree.find(root, "num_experts");
  tree.for_each(counts, [&](PickleValue value) {
    const auto count = tree.integer(value);
    if (!count || *count < 0) {
      throw Error(ErrorKind::kBadInput, "has 'num_experts' that are no numbers");
    }
    out.experts.push_back(*count);
    return true;
  });
  if (out.experts.empty()) {
    throw Error(ErrorKind::kUnsupported,
                "has no 'num_experts', which DeepSpeed saves with experts");
  }
  return out;
}

/// @throws Error kMissing or kBadInput
void require_files(const fs::path& directory, const ZeroExperts& files,
                   const std::vector<std::int64_t>& counts) {
  std::size_t expected = 0;
  for (std::size_t layer = 0; layer < counts.size(); ++layer) {
    for (std::int64_t expert = 0; expert < counts[layer]; ++expert, ++expected) {
      if (files.contains({static_cast<std::int64_t>(layer), expert})) continue;
      throw Error(ErrorKind::kMissing, "has no file of expert " + std::to_string(expert) +
                                           " of layer " + std::to_string(layer))
          .in_file(directory.string())
          .hint(kBringAll);
    }
  }
  if (files.size() == expected) return;
  throw Error(ErrorKind::kBadInput, "has files of " + counted(files.size(), "expert") +
                                        ", but the file of model states has num_experts of " +
                                        std::to_string(expected))
      .in_file(directory.string())
      .hint(kBringAll);
}

void add(DictTensors tensors, const ByteSourcePtr& file, JoinedTensors& out, LeftOfFiles& left) {
  const std::size_t number = out.add_file(file);
  for (const TorchTensor& tensor : tensors.tensors) out.add_whole(tensor, number);
  for (const RefusedTensor& tensor : tensors.refused) left.refused.push_back(tensor.name);
}

}  // namespace

Discovery read_experts(const fs::path& directory, const ZeroStep& step, const SourceTreePtr& tree) {
  const auto part = step.parts.find(0);
  const bool is_plain = part != step.parts.end() && step.parts.size() == 1 &&
                        part->second.model.size() == 1 && !part->second.model_of_each_rank &&
                        step.layers.empty();
  if (!is_plain || step.has_other_experts) {
    throw of_other_parallelism().in_file(directory.string());
  }
  const fs::path model_path = directory / part->second.model.begin()->second;
  const ByteSourcePtr model = open_file(model_path, tree);
  ModelFile read = read_archive(*model, read_model);
  require_files(directory, step.experts, read.experts);
  std::vector<JoinedTensors> joined;
  JoinedTensors& out = joined.emplace_back(model_path);
  LeftOfFiles left;
  left.files.emplace_back(model_path, read.tensors.folder);
  add(std::move(read.tensors), model, out, left);
  for (const auto& [place, name] : step.experts) {
    const ByteSourcePtr file = open_file(directory / name, tree);
    DictTensors tensors = read_archive(*file, read_module_file);
    left.files.emplace_back(directory / name, tensors.folder);
    const std::string own = ".deepspeed_experts." + std::to_string(place.second) + ".";
    for (const TorchTensor& tensor : tensors.tensors) {
      if (tensor.name.find(own) != std::string::npos && !out.has(tensor.name)) continue;
      throw Error(ErrorKind::kBadInput, "has a tensor that is not this expert's")
          .in_file((directory / name).string())
          .for_parameter(tensor.name)
          .hint(kBringAll);
    }
    add(std::move(tensors), file, out, left);
  }
  std::vector<ModuleCopies> none;
  Discovery found = JoinedTensors::finish(std::move(joined), none);
  found.completeness.grounds.push_back("num_experts in " +
                                       printable(model_path.filename().string()));
  found.completeness.counted = true;
  note_other_step(
      directory, {{model_path.filename().string(), read_archive(*model, zero_model_facts)}}, found);
  found.completeness.doubts.push_back("files of experts do not state of which save they are");
  found.warnings.push_back(
      "left out: the float32 of the weights and the optimizer's states, which are cut by expert "
      "parallelism");
  state_left(left, found);
  return found;
}

}  // namespace reshardfs
