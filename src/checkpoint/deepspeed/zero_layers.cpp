// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_layers.h"

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
                 JoinedTensors& out, std::vector<std::string>& untaken) {
  for (const auto& [number, name] : layers) {
    const ByteSourcePtr file = open_file(directory / name, tree);
    std::vector<TorchTensor> tensors = read_layer(*file);
    const std::size_t place = out.add_file(file);
    const std::string prefix = std::to_string(number) + ".";
    bool is_named = false;
    for (const TorchTensor& tensor : tensors) is_named = is_named || out.has(prefix + tensor.name);
    for (TorchTensor& tensor : tensors) {
      tensor.name.insert(0, prefix);
      if (out.has(tensor.name)) continue;
      // A tied layer is trained under the name of what it is tied to.
      if (is_named) {
        out.add_whole(tensor, place);
      } else {
        untaken.push_back(tensor.name);
      }
    }
  }
}

}  // namespace reshardfs
