// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_layers.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/deepspeed/zero_states.h"
#include "checkpoint/torch/archive_folder.h"
#include "storage/inputs.h"

namespace reshardfs {

void state_left(const LeftOfFiles& left, Discovery& out) {
  state_saved_names(left.files, out.completeness);
  if (!left.unnamed.empty()) {
    out.warnings.push_back("left out, because no file states their names in the model: " +
                           name_list(left.unnamed));
  }
  if (!left.refused.empty()) {
    out.warnings.push_back("left out, because their types cannot be shown: " +
                           name_list(left.refused));
  }
}

void take_layers(const std::filesystem::path& directory,
                 const std::map<std::int64_t, std::string>& layers, const SourceTreePtr& tree,
                 std::vector<JoinedTensors>& stages, LeftOfFiles& left) {
  const auto stage_of = [&](const std::string& name) {
    return std::find_if(stages.begin(), stages.end(),
                        [&](const JoinedTensors& stage) { return stage.has(name); });
  };
  const bool has_ties = std::any_of(stages.begin(), stages.end(), [](const JoinedTensors& stage) {
    return stage.has_tied_layers();
  });
  for (const auto& [number, name] : layers) {
    const ByteSourcePtr file = open_file(directory / name, tree);
    DictTensors named = read_archive(*file, read_module_file);
    left.files.emplace_back(directory / name, named.folder);
    const std::string prefix = std::to_string(number) + ".";
    for (const RefusedTensor& tensor : named.refused) left.refused.push_back(prefix + tensor.name);
    std::vector<TorchTensor>& tensors = named.tensors;
    auto stage = stages.end();
    for (TorchTensor& tensor : tensors) {
      tensor.name.insert(0, prefix);
      if (stage == stages.end()) stage = stage_of(tensor.name);
    }
    // A tied layer is trained under the name of what it is tied to; another one of which nothing is
    // trained is frozen.
    if (stage == stages.end() && !has_ties) stage = stages.begin();
    const bool is_named = stage != stages.end();
    const std::size_t place = (is_named ? *stage : stages.front()).add_file(file);
    for (TorchTensor& tensor : tensors) {
      const auto known = stage_of(tensor.name);
      if (!is_named) {
        left.unnamed.push_back(tensor.name);
      } else if (known == stages.end()) {
        stage->add_whole(tensor, place);
      } else if (known == stage) {
        try {
          stage->add_copy(tensor, place);
        } catch (Error& error) {
          throw error.in_file((directory / name).string());
        }
      }
    }
  }
}

}  // namespace reshardfs
