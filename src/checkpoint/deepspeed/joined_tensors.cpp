// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/joined_tensors.h"

#include <algorithm>
#include <utility>

#include "checkpoint/shaped_catalogue.h"
#include "checkpoint/torch/saved_content.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {

JoinedTensors::JoinedTensors(const std::filesystem::path& directory)
    : directory_(directory.string()) {}

std::size_t JoinedTensors::add_file(ByteSourcePtr file) {
  files_.push_back(std::move(file));
  return files_.size() - 1;
}

std::uint64_t JoinedTensors::add(std::shared_ptr<const JoinedPlaces> places) {
  return places_->add(std::move(places));
}

void JoinedTensors::add_tensor(std::string name, DType dtype, const Shape& shape,
                               std::uint64_t begin) {
  shapes_.emplace(name, shape);
  TensorEntry& entry = entries_.emplace_back();
  entry.name = std::move(name);
  entry.dtype = dtype;
  entry.shape = shape;
  entry.content_bytes = content_bytes(shape, dtype);
  if (entry.content_bytes > 0) entry.extents.emplace_back(begin, entry.content_bytes);
}

void JoinedTensors::add_whole(const TorchTensor& tensor, std::size_t file) {
  if (!is_contiguous(tensor)) {
    refused_.push_back({tensor.name, "it is not stored in C order"});
    return;
  }
  auto range = std::make_shared<RangeList>();
  range->add(file, contiguous_range(tensor));
  add_tensor(tensor.name, tensor.dtype, tensor.shape, add(std::move(range)));
}

bool JoinedTensors::add_alias(std::string alias, const std::string& name) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const TensorEntry& entry) { return entry.name == name; });
  if (found == entries_.end()) return false;
  TensorEntry entry = *found;
  shapes_.emplace(alias, entry.shape);
  entry.name = std::move(alias);
  entries_.push_back(std::move(entry));
  return true;
}

Discovery JoinedTensors::finish(const std::filesystem::path& path) && {
  auto index = std::make_shared<const FileIndex>(std::move(entries_));
  auto source = std::make_shared<const JoinedSource>(directory_, files_, places_);
  Discovery out;
  FoundFile& file = out.files.emplace_back();
  file.path = path;
  file.content =
      std::make_shared<const SavedContent>(std::move(index), std::move(source), std::move(files_));
  out.catalogue =
      std::make_shared<const ShapedCatalogue>(1, std::move(shapes_), std::move(refused_));
  return out;
}

}  // namespace reshardfs
