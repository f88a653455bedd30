// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/foreign_files.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "format/foreign_content.h"
#include "format/input_format.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

/// Files with which other programs mark a directory as theirs.
struct Marker {
  std::string_view name;
  std::string_view what;  ///< completes "is ..."
  std::string_view advice;
};

constexpr std::string_view kFromJax =
    "restore it with Orbax, and save the arrays with safetensors.flax.save_file()";

constexpr std::array kMarkers{
    Marker{"_CHECKPOINT_METADATA", "a checkpoint of Orbax", kFromJax},
    Marker{"_METADATA", "a checkpoint of Orbax", kFromJax},
    Marker{"manifest.ocdbt", "a checkpoint of Orbax", kFromJax},
    Marker{".zgroup", "a zarr store",
           "load it with the program that wrote it, and save the tensors "
           "as safetensors"},
    Marker{"saved_model.pb", "a SavedModel of TensorFlow",
           "load it with TensorFlow, and save the tensors as safetensors"},
};

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
    // Another message is right without this, too.
  }
  return std::nullopt;
}

/// The directories in which files of ranks are looked for.
bool has_rank_name(std::string_view name) {
  constexpr std::array<std::string_view, 3> kBeginnings{"rank_", "node", "ckpt_"};
  return std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](std::string_view beginning) { return name.starts_with(beginning); });
}

/// Directories of ranks with files of torch.save: which of them are the ranks' is not known.
void refuse_torch_ranks(const std::filesystem::path& root, const std::string& rank,
                        const std::vector<DirectoryEntry>& entries) {
  const auto file = std::find_if(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return entry.is_regular && has_torch_name(entry.name);
  });
  if (file == entries.end()) return;
  const std::string beginning = rank.substr(0, rank.find_first_of("0123456789"));
  throw Error(ErrorKind::kMissing, "has files of torch.save in directories of ranks (" +
                                       printable(rank + "/" + file->name) + ")")
      .in_file(root.string())
      .hint("name them with --src-pattern '" + printable(beginning) + "{rank}/" +
            printable(file->name) + "'");
}

/// @throws as refuse_foreign_files().
void refuse_in(const std::filesystem::path& root, const std::vector<DirectoryEntry>& entries,
               const SourceTreePtr& tree) {
  constexpr int kMostOpened = 16;
  int opened = 0;
  for (const DirectoryEntry& entry : entries) {
    for (const Marker& marker : kMarkers) {
      if (entry.name != marker.name) continue;
      throw Error(ErrorKind::kUnsupported,
                  "is " + std::string(marker.what) + " (it has " + std::string(marker.name) + ")")
          .in_file(root.string())
          .hint(std::string(marker.advice));
    }
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

void refuse_foreign_files(const std::filesystem::path& root, const SourceTreePtr& tree) {
  const std::vector<DirectoryEntry> entries = list_directory(root, tree);
  refuse_in(root, entries, tree);
  const auto rank = std::find_if(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return entry.is_directory && has_rank_name(entry.name);
  });
  if (rank == entries.end()) return;
  const std::vector<DirectoryEntry> below = list_directory(root / rank->name, tree);
  refuse_in(root / rank->name, below, tree);
  refuse_torch_ranks(root, rank->name, below);
}

}  // namespace reshardfs
