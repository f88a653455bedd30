// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/joined_tensors.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "reshardfs/error.h"

#include "base/cast.h"
#include "base/text/text.h"
#include "checkpoint/shaped_catalogue.h"
#include "checkpoint/torch/saved_content.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {
namespace {

/// The runs of elements that a box of a tensor in C order consists of.
/// @param content of the tensor.
void add_runs(const ByteRange& content, const Shape& tensor, const AffinePiece& piece,
              std::uint64_t width, FileExtents& out) {
  // Trailing dimensions that the box has whole are one run with the one before.
  std::size_t inner = tensor.size();
  std::int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= piece.shape[inner];
    if (piece.shape[inner] != tensor[inner]) break;
  }
  Shape at(inner, 0);
  while (true) {
    std::int64_t begin = 0;
    for (std::size_t d = 0; d < tensor.size(); ++d) {
      begin = begin * tensor[d] + piece.in_shard[d] + (d < inner ? at[d] : 0);
    }
    out.emplace_back(content.offset() + static_cast<std::uint64_t>(begin) * width,
                     static_cast<std::uint64_t>(run) * width);
    std::size_t d = inner;
    while (d > 0 && ++at[d - 1] == piece.shape[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

JoinedTensors::JoinedTensors(std::filesystem::path path) : path_(std::move(path)) {}

std::size_t JoinedTensors::add_file(ByteSourcePtr file) {
  files_.push_back(std::move(file));
  return files_.size() - 1;
}

std::uint64_t JoinedTensors::add(std::shared_ptr<const JoinedPlaces> places) {
  return places_->add(std::move(places));
}

void JoinedTensors::add_tensor(JoinedName name, DType dtype, const Shape& shape,
                               std::uint64_t begin) {
  if (name.state.empty()) {
    parameters_.emplace(name.parameter, tensors_.size());
  } else {
    states_.insert(name.state);
  }
  Tensor& tensor = tensors_.emplace_back();
  TensorEntry& entry = tensor.entry;
  entry.name = name.shown();
  entry.dtype = dtype;
  entry.shape = shape;
  entry.content_bytes = content_bytes(shape, dtype);
  if (entry.content_bytes > 0) entry.extents.emplace_back(begin, entry.content_bytes);
  shapes_.emplace(entry.name, shape);
  tensor.parameter = std::move(name.parameter);
}

void JoinedTensors::add_whole(const TorchTensor& tensor, std::size_t file, std::string state) {
  JoinedName name{tensor.name, std::move(state)};
  if (!is_contiguous(tensor)) {
    refused_.push_back({name.shown(), "it is not stored in C order"});
    return;
  }
  auto range = std::make_shared<RangeList>();
  range->add(file, contiguous_range(tensor));
  add_tensor(std::move(name), tensor.dtype, tensor.shape, add(std::move(range)));
}

bool JoinedTensors::add_alias(const std::string& alias, const std::string& parameter) {
  const auto found = parameters_.find(parameter);
  if (found == parameters_.end()) return false;
  Tensor tensor = tensors_[found->second];
  tensor.entry.name = alias;
  shapes_.emplace(alias, shapes_.at(parameter));
  parameters_.emplace(alias, tensors_.size());
  tensors_.push_back(std::move(tensor));
  return true;
}

void JoinedTensors::add_copy(const TorchTensor& tensor, std::size_t file) {
  const auto found = parameters_.find(tensor.name);
  if (found == parameters_.end() || !is_contiguous(tensor)) return;
  const TensorEntry& entry = tensors_[found->second].entry;
  if (entry.content_bytes == 0 || !can_cast(entry.dtype, tensor.dtype)) return;
  if (shapes_.at(tensor.name) != tensor.shape) return;
  copies_.push_back({tensor.name, entry.dtype, entry.extents.front().offset(),
                     static_cast<std::size_t>(element_count(tensor.shape)), tensor.dtype,
                     contiguous_range(tensor), file});
}

void JoinedTensors::cut(const AffineMap& map, std::size_t rank) {
  std::vector<Tensor> out;
  for (Tensor& tensor : tensors_) {
    const auto whole = map.find(tensor.parameter);
    if (whole == map.end()) {
      out.push_back(std::move(tensor));
    } else if (!whole->second.refused.empty()) {
      shapes_.erase(tensor.entry.name);
      refused_.push_back({tensor.entry.name, whole->second.refused});
    } else {
      cut(tensor, whole->second, rank, out);
    }
  }
  tensors_ = std::move(out);
}

void JoinedTensors::cut(const Tensor& shard, const AffineTensor& whole, std::size_t rank,
                        std::vector<Tensor>& out) {
  const TensorEntry& entry = shard.entry;
  const Shape& stored = shapes_.at(entry.name);
  if (rank >= whole.shards.size() || whole.shards[rank].shape != stored) {
    throw Error(ErrorKind::kBadInput,
                "has a shard of " + to_string(stored) + " of tensor-parallel rank " +
                    std::to_string(rank) + ", but its affine_map states " +
                    (rank < whole.shards.size() ? to_string(whole.shards[rank].shape) : "none"))
        .for_parameter(entry.name);
  }
  const ByteRange content = entry.content_bytes == 0 ? ByteRange() : entry.extents.front();
  const auto width = static_cast<std::uint64_t>(element_size(entry.dtype));
  for (const AffinePiece& piece : whole.shards[rank].pieces) {
    Tensor& box = out.emplace_back();
    box.entry.name = entry.name;
    box.entry.dtype = entry.dtype;
    box.entry.shape = piece.shape;
    box.entry.content_bytes = content_bytes(piece.shape, entry.dtype);
    if (box.entry.content_bytes > 0) {
      add_runs(content, stored, piece, width, box.entry.extents);
    }
    box.is_box = true;
    box.offsets = piece.in_whole;
  }
  shapes_[entry.name] = whole.shape;
}

FoundFile JoinedTensors::finish_file(std::unordered_map<std::string, Shape>& shapes,
                                     std::vector<ModuleCopies>& copies) && {
  std::vector<TensorEntry> entries;
  BoxOffsets boxes;
  for (Tensor& tensor : tensors_) {
    if (tensor.is_box) boxes.add(entries.size(), tensor.offsets);
    entries.push_back(std::move(tensor.entry));
  }
  for (auto& [name, shape] : shapes_) shapes.emplace(name, std::move(shape));
  auto index =
      std::make_shared<const FileIndex>(std::move(entries), IndexHints(), std::move(boxes));
  auto source = std::make_shared<const JoinedSource>(path_.parent_path().string(), files_, places_);
  copies.emplace_back(source, std::move(copies_));
  FoundFile file;
  file.path = path_;
  file.content =
      std::make_shared<const SavedContent>(std::move(index), std::move(source), std::move(files_));
  return file;
}

Discovery JoinedTensors::finish(std::vector<JoinedTensors> all, std::vector<ModuleCopies>& copies) {
  Discovery out;
  std::set<std::string> states;
  std::vector<RefusedTensor> refused;
  std::unordered_map<std::string, Shape> shapes;
  for (const JoinedTensors& one : all) states.insert(one.states_.begin(), one.states_.end());
  for (const std::string& state : states) out.state_prefixes.push_back(state + ".");
  for (JoinedTensors& one : all) {
    for (const auto& [name, number] : one.parameters_) {
      for (const std::string& prefix : out.state_prefixes) {
        if (!name.starts_with(prefix)) continue;
        throw Error(ErrorKind::kUnsupported, "has the name of a state of the optimizer")
            .in_file(one.path_.parent_path().string())
            .for_parameter(name);
      }
    }
    for (RefusedTensor& tensor : one.refused_) {
      const bool is_new =
          std::none_of(refused.begin(), refused.end(),
                       [&](const RefusedTensor& other) { return other.name == tensor.name; });
      if (is_new) refused.push_back(std::move(tensor));
    }
    const auto number = static_cast<std::int64_t>(out.files.size());
    out.files.push_back(std::move(one).finish_file(shapes, copies));
    out.files.back().rank = Rank(number);
  }
  for (const RefusedTensor& tensor : refused) shapes.erase(tensor.name);
  out.catalogue = std::make_shared<const ShapedCatalogue>(static_cast<std::int64_t>(all.size()),
                                                          std::move(shapes), std::move(refused));
  return out;
}

}  // namespace reshardfs
