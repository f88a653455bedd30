// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/torch_ranks.h"

#include <utility>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/text/url_path.h"
#include "checkpoint/shaped_catalogue.h"
#include "checkpoint/source_links.h"
#include "checkpoint/torch/archive_folder.h"
#include "checkpoint/torch/saved_content.h"
#include "checkpoint/torch/state_key.h"
#include "checkpoint/torch/torch_file.h"

namespace reshardfs {

void TorchRanks::open(
    const std::map<std::int64_t, std::string>& names, DTensors dtensors,
    const std::function<void(const FoundFile& file, const TorchSave& saved)>& check) {
  std::vector<FoundFile> files;
  for (const auto& [rank, name] : names) {
    files.push_back({Rank(rank), {}, directory_ / name, -1, tree_});
  }
  open(std::move(files), [&](const FoundFile& file, const ByteSource& source) {
    TorchSave saved = read_archive(
        source, [&](const TorchArchive& archive) { return read_torch_save(archive, dtensors); });
    if (check) check(file, saved);
    return saved;
  });
}

void TorchRanks::open(std::vector<FoundFile> files, const ReadSaved& read) {
  found_ = std::move(files);
  contents_.resize(found_.size());
  parallel_for(
      found_.size(),
      [&](std::size_t i) {
        contents_[i].file = open_file(found_[i].path, tree_);
        contents_[i].saved = read(found_[i], *contents_[i].file);
      },
      is_url(directory_) ? kRequestsAtOnce : 0);
}

void TorchRanks::keep(const std::function<bool(const FoundFile& file)>& wanted) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found_.size(); ++i) {
    if (!wanted(found_[i])) {
      beside_.push_back(std::move(contents_[i].saved.beside));
      continue;
    }
    if (kept != i) {
      found_[kept] = std::move(found_[i]);
      contents_[kept] = std::move(contents_[i]);
    }
    ++kept;
  }
  found_.resize(kept);
  contents_.resize(kept);
}

Discovery TorchRanks::discovery() {
  for (std::size_t i = 0; i < contents_.size(); ++i) take_shapes(i);
  parallel_for(found_.size(), [this](std::size_t i) { describe(i); });
  note_values();
  state_names();
  out_.completeness.counted = true;
  const auto ranks = found_.empty() ? 0 : found_.back().rank.number() + 1;
  out_.catalogue = catalogue_without(std::move(problems_), std::move(shapes_), ranks);
  out_.files = std::move(found_);
  return std::move(out_);
}

/// The full shapes, in which all files must agree.
void TorchRanks::take_shapes(std::size_t number) {
  TorchSave& saved = contents_[number].saved;
  for (std::size_t i = 0; i < saved.tensors.size(); ++i) {
    std::string name = saved.tensors[i].name;
    if (!take_state(options_.state_key, name)) continue;
    const auto place = saved.places.find(i);
    const Shape& full =
        place == saved.places.end() ? saved.tensors[i].shape : place->second.full_shape;
    const auto [known, is_new] = shapes_.emplace(name, full);
    if (is_new || known->second == full) continue;
    problems_.try_emplace(name, "its full shape is " + to_string(known->second) +
                                    " in another rank's file, but " + to_string(full) +
                                    " in that of rank " + to_string(found_[number].rank) +
                                    ": the files are not of one save");
  }
  for (const RefusedTensor& tensor : saved.refused) {
    std::string name = tensor.name;
    if (take_state(options_.state_key, name)) problems_.try_emplace(name, tensor.reason);
  }
}

void TorchRanks::describe(std::size_t number) {
  Content& content = contents_[number];
  std::vector<TorchTensor> tensors;
  BoxOffsets offsets;
  for (std::size_t i = 0; i < content.saved.tensors.size(); ++i) {
    TorchTensor& tensor = content.saved.tensors[i];
    if (!take_state(options_.state_key, tensor.name) || problems_.contains(tensor.name)) continue;
    const auto place = content.saved.places.find(i);
    offsets.add(tensors.size(), place == content.saved.places.end() ? Shape(tensor.shape.size(), 0)
                                                                    : place->second.offsets);
    tensors.push_back(std::move(tensor));
  }
  found_[number].content = content_of_tensors(std::move(tensors), content.file, std::move(offsets));
}

void TorchRanks::state_names() {
  SavedNames files;
  for (std::size_t i = 0; i < found_.size(); ++i) {
    files.emplace_back(found_[i].path, archive_folder(*contents_[i].file));
  }
  state_saved_names(files, out_.completeness);
}

void TorchRanks::note_values() {
  std::vector<SavedBeside> beside = std::move(beside_);
  for (SavedBeside& of_file : beside) keep_state(options_.state_key, of_file.values);
  for (Content& content : contents_) {
    keep_state(options_.state_key, content.saved.beside.values);
    beside.push_back(std::move(content.saved.beside));
  }
  out_.beside = joined(std::move(beside));
}

void require_own_rank(const FoundFile& found, const TorchSave& saved) {
  for (const auto& [tensor, place] : saved.places) {
    if (place.rank == found.rank.number()) continue;
    throw Error(ErrorKind::kBadInput, "is of rank " + std::to_string(place.rank) +
                                          " by its content, but of rank " + to_string(found.rank) +
                                          " by its name")
        .in_file(found.path.string())
        .for_parameter(saved.tensors[tensor].name)
        .hint("give the files the names that they were saved with");
  }
}

}  // namespace reshardfs
