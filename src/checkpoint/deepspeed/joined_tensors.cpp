// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/joined_tensors.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

#include "base/cast.h"
#include "base/text/text.h"
#include "checkpoint/shaped_catalogue.h"
#include "checkpoint/torch/saved_content.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {
namespace {

/// A box of a tensor in C order, in the order of its own elements. Computes where they are: a box
/// of some columns has as many runs as rows.
class BoxPlaces final : public JoinedPlaces {
 public:
  /// @param all has the tensor from `begin` on, and outlives this.
  BoxPlaces(const JoinedPlaces& all, std::uint64_t begin, Shape tensor, AffinePiece piece,
            std::uint64_t width)
      : all_(all),
        begin_(begin),
        tensor_(std::move(tensor)),
        piece_(std::move(piece)),
        width_(width),
        inner_(tensor_.size()) {
    // Trailing dimensions that the box has whole are one run with the one before.
    while (inner_ > 0) {
      --inner_;
      run_ *= static_cast<std::uint64_t>(piece_.shape[inner_]);
      if (piece_.shape[inner_] != tensor_[inner_]) break;
    }
  }

  std::uint64_t size() const noexcept override {
    return static_cast<std::uint64_t>(element_count(piece_.shape)) * width_;
  }
  JoinedPart part_at(std::uint64_t offset) const override {
    const std::uint64_t in_run = offset % (run_ * width_);
    std::uint64_t number = offset / (run_ * width_);
    std::uint64_t place = 0;
    std::uint64_t stride = 1;
    for (std::size_t d = tensor_.size(); d-- > 0;) {
      auto at = static_cast<std::uint64_t>(piece_.in_shard[d]);
      if (d < inner_) {
        const auto length = static_cast<std::uint64_t>(piece_.shape[d]);
        at += number % length;
        number /= length;
      }
      place += at * stride;
      stride *= static_cast<std::uint64_t>(tensor_[d]);
    }
    JoinedPart part = all_.part_at(begin_ + place * width_ + in_run);
    part.length = std::min(part.length, run_ * width_ - in_run);
    return part;
  }

 private:
  const JoinedPlaces& all_;
  std::uint64_t begin_;
  Shape tensor_;
  AffinePiece piece_;
  std::uint64_t width_;
  std::size_t inner_;      ///< the first dimension of a run
  std::uint64_t run_ = 1;  ///< elements
};

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
  if (found == parameters_.end()) return;
  const TensorEntry& entry = tensors_[found->second].entry;
  const Shape& shape = shapes_.at(tensor.name);
  if (shape != tensor.shape) {
    throw Error(ErrorKind::kBadInput, "has the shape " + to_string(tensor.shape) +
                                          " in 'module', but " + to_string(shape) +
                                          " among the parameters that are trained")
        .for_parameter(tensor.name);
  }
  if (entry.content_bytes == 0) return;
  if (!is_contiguous(tensor) || !can_cast(entry.dtype, tensor.dtype)) {
    not_compared_.push_back(tensor.name);
    return;
  }
  copies_.push_back({tensor.name, entry.dtype, entry.extents.front().offset(),
                     static_cast<std::size_t>(element_count(tensor.shape)), tensor.dtype,
                     contiguous_range(tensor), file});
}

bool JoinedTensors::has_tied_layers() const {
  return std::any_of(parameters_.begin(), parameters_.end(), [](const auto& parameter) {
    return parameter.first.starts_with("tied_modules.");
  });
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
    const std::uint64_t begin =
        add(std::make_shared<BoxPlaces>(*places_, content.offset(), stored, piece, width));
    box.entry.extents.emplace_back(begin, box.entry.content_bytes);
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
    if (!one.not_compared_.empty()) {
      out.warnings.push_back("`module` is stored in a form in which it is not compared: " +
                             name_list(one.not_compared_));
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
