// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_layers.h"

#include <algorithm>
#include <utility>

#include "checkpoint/torch/archive_folder.h"
#include "format/torch/torch_values.h"
#include "storage/inputs.h"

namespace reshardfs {
namespace {

/// The tensors under their local names.
std::vector<TorchTensor> read_layer(const ByteSource& file) {
  return read_archive(file, [](const TorchArchive& archive) {
    std::vector<TorchTensor> tensors;
    const PickleTree& tree = archive.tree();
    tree.for_each_pair(tree.root(), [&](PickleValue key, PickleValue value) {
      const auto name = tree.text(key);
      if (!name || !archive.is_tensor(value)) return true;
      TorchTensor tensor = archive.tensor(value);
      tensor.name = *name;
      tensors.push_back(std::move(tensor));
      return true;
    });
    return tensors;
  });
}

}  // namespace

void take_layers(const std::filesystem::path& directory,
                 const std::map<std::int64_t, std::string>& layers, const SourceTreePtr& tree,
                 std::vector<JoinedTensors>& stages, std::vector<std::string>& untaken) {
  const auto stage_of = [&](const std::string& name) {
    return std::find_if(stages.begin(), stages.end(),
                        [&](const JoinedTensors& stage) { return stage.has(name); });
  };
  for (const auto& [number, name] : layers) {
    const ByteSourcePtr file = open_file(directory / name, tree);
    std::vector<TorchTensor> tensors = read_layer(*file);
    auto stage = stages.end();
    for (TorchTensor& tensor : tensors) {
      tensor.name.insert(0, std::to_string(number) + ".");
      if (stage == stages.end()) stage = stage_of(tensor.name);
    }
    // A tied layer is trained under the name of what it is tied to.
    const bool is_named = stage != stages.end();
    const std::size_t place = (is_named ? *stage : stages.front()).add_file(file);
    for (TorchTensor& tensor : tensors) {
      const auto known = stage_of(tensor.name);
      if (!is_named) {
        untaken.push_back(tensor.name);
      } else if (known == stages.end()) {
        stage->add_whole(tensor, place);
      } else if (known == stage) {
        stage->add_copy(tensor, place);
      }
    }
  }
}

}  // namespace reshardfs
