// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/foreign_kinds.h"

#include <algorithm>

#include "base/text/glob.h"
#include "format/foreign_content.h"

namespace reshardfs {
namespace {

constexpr std::string_view kFromJax =
    "restore it with Orbax, and save the arrays with safetensors.flax.save_file()";
constexpr std::string_view kFromZarr =
    "open it with zarr, and save the arrays with safetensors.numpy.save_file()";
constexpr std::string_view kFromTensorFlow =
    "load it with TensorFlow, and save the variables with safetensors.tensorflow.save_file()";

constexpr std::array kKinds{
    ForeignKind{{"_CHECKPOINT_METADATA"}, "a checkpoint of Orbax", kFromJax},
    ForeignKind{{"_METADATA"}, "a checkpoint of Orbax", kFromJax},
    ForeignKind{{"manifest.ocdbt"}, "a checkpoint of Orbax", kFromJax},
    ForeignKind{{".zgroup"}, "a zarr store", kFromZarr},
    ForeignKind{{".zarray"}, "a zarr store", kFromZarr},
    ForeignKind{{"zarr.json"}, "a zarr store", kFromZarr},
    ForeignKind{{"saved_model.pb"}, "a SavedModel of TensorFlow", kFromTensorFlow},
    ForeignKind{
        {"*.index", "*.data-[0-9]*-of-[0-9]*"}, "a checkpoint of TensorFlow", kFromTensorFlow},
    ForeignKind{{"pytorch_model_fsdp_rank[0-9]*.bin"},
                "a local state of accelerate's FSDP, whose flat parameters have no shapes",
                "save it again with state_dict_type SHARDED_STATE_DICT"},
    ForeignKind{{"*.pdparams"},
                "a model of Paddle",
                "load it with paddle.load(), and save the tensors as safetensors"},
    ForeignKind{{"*.nemo"},
                "an archive of NeMo",
                "unpack it with 'tar xf' into a directory of its own, and name that"},
    ForeignKind{{"checkpoint_metadata.json", "model_config.json"},
                "a checkpoint of nanotron",
                "convert it with nanotron's examples/llama/convert_nanotron_to_hf.py"},
    ForeignKind{{"ndarray-cache.json"}, "a model compiled for MLC", kNameItsModel},
    ForeignKind{{"rank[0-9]*.engine"}, "an engine of TensorRT-LLM", kNameItsModel},
    ForeignKind{{"*.mlpackage/"}, "a package of Core ML", kNameItsModel},
    ForeignKind{{"openvino_*.xml", "openvino_*.bin"}, "a model of OpenVINO", kNameItsModel},
};

/// The entry that a pattern matches; nullptr if there is none.
const DirectoryEntry* entry_of(std::string_view pattern,
                               const std::vector<DirectoryEntry>& entries) {
  const bool of_directory = pattern.ends_with('/');
  if (of_directory) pattern.remove_suffix(1);
  const std::string glob(pattern);
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
    return entry.is_directory == of_directory && glob_match(glob, entry.name);
  });
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace

std::span<const ForeignKind> foreign_kinds() {
  return kKinds;
}

ForeignDirectory foreign_directory(const std::vector<DirectoryEntry>& entries) {
  for (const ForeignKind& kind : kKinds) {
    const DirectoryEntry* const first = entry_of(kind.signs.front(), entries);
    if (first == nullptr) continue;
    if (kind.signs.back().empty() || entry_of(kind.signs.back(), entries) != nullptr) {
      return {&kind, first->name};
    }
  }
  return {nullptr, {}};
}

}  // namespace reshardfs
