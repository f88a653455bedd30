// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/torch_file.h"

#include <algorithm>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "checkpoint/strided_read.h"
#include "checkpoint/torch/archive_folder.h"
#include "checkpoint/torch/state_key.h"
#include "format/input_format.h"
#include "format/torch/torch_archive.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {
namespace {

/// Its tensors are flat buffers, whose order only the program that saved them knows.
void refuse_flat_optimizer(const std::filesystem::path& path) {
  if (path.filename() != "distrib_optim.pt") return;
  throw Error(
      ErrorKind::kUnsupported,
      "has the states of Megatron-LM's distributed optimizer, without parameters' names, and "
      "no weights to show")
      .in_file(path.string())
      .hint("name the directory of the iteration (iter_0000100) as the source to see the model");
}

}  // namespace

std::shared_ptr<const FileIndex> index_of_tensors(std::vector<TorchTensor> tensors,
                                                  std::vector<RefusedTensor> refused,
                                                  const ByteSourcePtr& file, ByteSourcePtr& source,
                                                  BoxOffsets boxes) {
  std::shared_ptr<InOrderSource> behind;
  std::vector<TensorEntry> entries;
  entries.reserve(tensors.size());
  for (TorchTensor& tensor : tensors) {
    TensorEntry& entry = entries.emplace_back();
    entry.name = std::move(tensor.name);
    entry.dtype = tensor.dtype;
    entry.shape = tensor.shape;
    entry.content_bytes = content_bytes(entry.shape, entry.dtype);
    if (entry.content_bytes == 0) continue;
    if (is_contiguous(tensor)) {
      entry.extents.push_back(contiguous_range(tensor));
      continue;
    }
    if (!behind) behind = std::make_shared<InOrderSource>(file);
    entry.extents.push_back(behind->add(std::move(tensor)));
  }
  source = file;
  if (behind) source = std::move(behind);
  return std::make_shared<const FileIndex>(std::move(entries), IndexHints{}, std::move(boxes),
                                           std::move(refused));
}

TorchFile open_torch_file(ByteSourcePtr file, const std::string& state_key) {
  TorchSave saved =
      read_archive(*file, [](const TorchArchive& archive) { return read_torch_save(archive); });
  keep_state(state_key, saved.tensors);
  keep_state(state_key, saved.refused);
  keep_state(state_key, saved.beside.values);
  TorchFile out;
  out.index =
      index_of_tensors(std::move(saved.tensors), std::move(saved.refused), file, out.source);
  out.beside = std::move(saved.beside);
  return out;
}

void open_if_torch(RankFile& file, const CheckpointOptions& options, SavedBeside& beside) {
  if (file.index || file.path.extension() == ".distcp") return;
  if (!begins_like_torch(*file.source)) return;
  refuse_flat_optimizer(file.path);
  TorchFile opened = open_torch_file(file.source, options.state_key);
  file.index = std::move(opened.index);
  file.saved = std::exchange(file.source, std::move(opened.source));
  beside = std::move(opened.beside);
}

SavedBeside joined(std::vector<SavedBeside> of_files) {
  SavedBeside all;
  std::set<std::string> names;
  std::set<std::string> wrappers;
  for (SavedBeside& file : of_files) {
    for (SavedValue& value : file.values) {
      if (names.insert(value.name).second) all.values.push_back(std::move(value));
    }
    wrappers.insert(file.wrappers.begin(), file.wrappers.end());
  }
  all.wrappers.assign(wrappers.begin(), wrappers.end());
  return all;
}

std::vector<std::string> notes_of(const SavedBeside& beside, const CheckpointOptions& options) {
  std::vector<std::string> notes;
  if (!beside.values.empty()) {
    std::vector<std::string> names;
    for (const SavedValue& value : beside.values) names.push_back(value.name);
    notes.push_back("left out: " + name_list(names));
  }
  if (!options.state_key.empty() || beside.wrappers.empty()) return notes;
  std::string choices;
  for (const std::string& key : beside.wrappers) {
    choices += (choices.empty() ? "" : " or ") + options.state_key_option + " " + key;
  }
  notes.push_back(choices + " shows the model's parameters alone, by their own names");
  return notes;
}

void refuse_state_key(const std::filesystem::path& set, const CheckpointOptions& options) {
  if (options.state_key.empty()) return;
  throw Error(ErrorKind::kUsage, "has the names of the model, without a key before them")
      .in_file(set.string())
      .hint("leave " + options.state_key_option + " out");
}

void require_state(const std::vector<RankFile>& files, const CheckpointOptions& options,
                   const SavedBeside& beside, bool is_applied) {
  if (options.state_key.empty()) return;
  const bool of_torch = std::any_of(files.begin(), files.end(), [](const RankFile& file) {
    return file.of_torch() || has_torch_name(file.path);
  });
  if (!of_torch && !is_applied) {
    throw Error(ErrorKind::kUsage, options.state_key_option +
                                       " selects in single files and in what PyTorch saved, not "
                                       "in a set of this kind")
        .in_file(files.front().path.string());
  }
  const bool has_some = std::any_of(files.begin(), files.end(), [](const RankFile& file) {
    return !file.index->entries().empty() || !file.index->refused().empty();
  });
  if (has_some) return;
  Error error(ErrorKind::kUsage, "has no tensor below the key '" + printable(options.state_key) +
                                     "' of " + options.state_key_option);
  error.in_file(files.front().path.string());
  if (!beside.wrappers.empty()) error.hint("there are tensors below " + name_list(beside.wrappers));
  throw error;
}

}  // namespace reshardfs
