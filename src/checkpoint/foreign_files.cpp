// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/foreign_files.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/recognition.h"
#include "format/foreign_content.h"
#include "format/input_format.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

constexpr std::string_view kFromJax =
    "restore it with Orbax, and save the arrays with safetensors.flax.save_file()";
constexpr std::string_view kFromZarr =
    "open it with zarr, and save the arrays with safetensors.numpy.save_file()";
constexpr std::string_view kFromTensorFlow =
    "load it with TensorFlow, and save the variables with safetensors.tensorflow.save_file()";

constexpr std::string_view kInternLm =
    "a checkpoint of InternLM by several ranks, and no file states how tensors are cut";
constexpr std::string_view kFromInternLm =
    "convert it with InternLM's tools, and name the directory that they write";

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
    ForeignKind{{"model_tp[1-9]*_pp*.pt"}, kInternLm, kFromInternLm},
    ForeignKind{{"model_tp*_pp[1-9]*.pt"}, kInternLm, kFromInternLm},
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

constexpr std::size_t kMostNamed = 12;     ///< a pipeline has six or so
constexpr std::size_t kMostSearched = 16;  ///< subdirectories of one that has no checkpoint

bool has_model_name(std::string_view name) {
  constexpr std::array<std::string_view, 14> kExtensions{
      ".bin",  ".pt",   ".pth", ".pkl",  ".pickle",  ".npz",   ".npy",
      ".gguf", ".onnx", ".h5",  ".hdf5", ".msgpack", ".keras", ".tflite"};
  return std::any_of(kExtensions.begin(), kExtensions.end(),
                     [&](std::string_view extension) { return name.ends_with(extension); });
}

/// What a file is, if it is a model of another program; nothing if it cannot be read.
std::optional<ForeignContent> model_in(const std::filesystem::path& path,
                                       const SourceTreePtr& tree) {
  try {
    auto content = foreign_content(*open_file(path, tree));
    if (content && content->is_model) return content;
  } catch (const Error&) {
    // This only makes a message more exact; without it, another one is right.
  }
  return std::nullopt;
}

/// "checkpoint_{rank}.pt" for "checkpoint_1.pt" of rank 1: the last number of the name, if it is
/// the rank.
std::string name_for_all_ranks(std::string name, std::int64_t rank) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t last = std::filesystem::path(name).stem().string().find_last_of(kDigits);
  if (last == std::string::npos) return name;
  const std::size_t before = name.find_last_not_of(kDigits, last);
  const std::size_t first = before == std::string::npos ? 0 : before + 1;
  const std::size_t length = last + 1 - first;
  if (parse_number(std::string_view(name).substr(first, length)) != rank) return name;
  return name.replace(first, length, "{rank}");
}

/// Directories of ranks with files of torch.save: which of them are the ranks' is not known.
void refuse_torch_ranks(const std::filesystem::path& root, const std::string& rank,
                        const std::vector<DirectoryEntry>& entries) {
  const auto file = std::find_if(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return entry.is_regular && has_torch_name(entry.name);
  });
  if (file == entries.end()) return;
  const auto parsed = parse_rank_directory(rank);
  throw Error(ErrorKind::kMissing, "has files of torch.save in directories of ranks (" +
                                       printable(rank + "/" + file->name) + ")")
      .in_file(root.string())
      .hint("name them with --src-pattern '" +
            printable(std::string(parsed->beginning) + "{rank}/" +
                      name_for_all_ranks(file->name, parsed->rank)) +
            "'");
}

/// @throws as refuse_foreign_files().
void refuse_contents(const std::filesystem::path& root, const std::vector<DirectoryEntry>& entries,
                     const SourceTreePtr& tree) {
  constexpr int kMostOpened = 16;
  int opened = 0;
  for (const DirectoryEntry& entry : entries) {
    if (!entry.is_regular || !has_model_name(entry.name) || opened == kMostOpened) continue;
    ++opened;
    const auto content = model_in(root / entry.name, tree);
    if (!content) continue;
    throw Error(ErrorKind::kUnsupported,
                "has no checkpoint that reshardfs reads: " + printable(entry.name) + " is " +
                    std::string(content->what))
        .in_file(root.string())
        .hint(std::string(content->advice));
  }
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

void refuse_foreign_directory(const std::filesystem::path& root, const SourceTreePtr& tree) {
  const auto [kind, sign] = foreign_directory(list_directory(root, tree));
  if (kind == nullptr) return;
  throw Error(ErrorKind::kUnsupported,
              "is " + std::string(kind->what) + " (it has " + printable(sign) + ")")
      .in_file(root.string())
      .hint(std::string(kind->advice));
}

void refuse_pipeline(const std::filesystem::path& root, const SourceTreePtr& tree) {
  constexpr const char* kPipeline = "model_index.json";
  if (path_kind(root / kPipeline, tree) != PathKind::kOther) return;
  std::vector<std::string> models;
  for (const DirectoryEntry& entry : list_directory(root, tree)) {
    if (entry.is_directory && is_checkpoint(root / entry.name)) models.push_back(entry.name);
  }
  if (models.empty()) return;
  throw Error(ErrorKind::kMissing, "is a pipeline of diffusers, with a model in each of " +
                                       name_list(models, kMostNamed))
      .in_file(root.string())
      .hint("name one of them, for example " + printable((root / models.front()).string()));
}

void refuse_foreign_below(const std::filesystem::path& root, const SourceTreePtr& tree) {
  const std::vector<std::string> names = directories_by_number(root, tree);
  for (std::size_t i = 0; i < std::min(names.size(), kMostSearched); ++i) {
    const auto [kind, sign] = foreign_directory(list_directory(root / names[i], tree));
    if (kind == nullptr) continue;
    throw Error(ErrorKind::kUnsupported,
                "has no checkpoint that reshardfs reads: '" + printable(names[i]) + "' is " +
                    std::string(kind->what) + " (it has " + printable(sign) + ")")
        .in_file(root.string())
        .hint(std::string(kind->advice));
  }
}

void refuse_foreign_files(const std::filesystem::path& root, const SourceTreePtr& tree) {
  const std::vector<DirectoryEntry> entries = list_directory(root, tree);
  refuse_contents(root, entries, tree);
  const auto rank = std::find_if(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return entry.is_directory && parse_rank_directory(entry.name);
  });
  if (rank == entries.end()) return;
  const std::vector<DirectoryEntry> below = list_directory(root / rank->name, tree);
  refuse_contents(root / rank->name, below, tree);
  refuse_torch_ranks(root, rank->name, below);
}

}  // namespace reshardfs
