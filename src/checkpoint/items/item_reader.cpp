// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/items/item_reader.h"

#include <unordered_set>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "checkpoint/items/item_boxes.h"
#include "checkpoint/torch/archive_folder.h"
#include "checkpoint/torch/torch_ranks.h"
#include "format/input_format.h"
#include "format/safetensors/safetensors.h"

namespace reshardfs {
namespace {

std::string type_words(DType dtype, const Shape& shape) {
  return std::string(mindspore_name(dtype)) + " " + to_string(shape);
}

[[noreturn]] void refuse_difference(const std::string& what) {
  throw Error(ErrorKind::kBadInput, what);
}

/// In elements, of a tensor in C order.
Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

/// The tensors of a safetensors file, as those of torch.save.
TorchSave tensors_in(const FileIndex& index) {
  TorchSave out;
  for (const TensorEntry& entry : index.entries()) {
    TorchTensor& tensor = out.tensors.emplace_back();
    tensor.name = entry.name;
    tensor.dtype = entry.dtype;
    tensor.shape = entry.shape;
    if (entry.content_bytes > 0) tensor.strides = strides_of(tensor.shape);
    if (!entry.extents.empty()) tensor.storage = entry.extents.front();
  }
  out.refused = index.refused();
  return out;
}

/// A box of a tensor, as a view of its storage.
TorchTensor view_of(const TorchTensor& tensor, const ItemBox& box) {
  TorchTensor view = tensor;
  view.shape = box.sizes;
  for (std::size_t d = 0; d < box.local.size(); ++d) {
    view.first += box.local[d] * tensor.strides[d];
  }
  return view;
}

bool is_box_inside(const ItemBox& box, const Shape& stored) {
  if (box.sizes.size() != stored.size()) return false;
  for (std::size_t d = 0; d < stored.size(); ++d) {
    if (box.sizes[d] > stored[d] || box.local[d] > stored[d] - box.sizes[d]) return false;
  }
  return true;
}

}  // namespace

struct SavedItemReader::Placed {
  TorchSave saved{};
  std::unordered_set<std::string> seen{};  ///< names in the file

  void refuse(const std::string& name, std::string reason) {
    saved.refused.push_back({name, std::move(reason)});
  }
};

SavedItemReader::SavedItemReader(const SavedItem& item, bool stated)
    : item_(item), stated_(stated) {
  for (const ItemTensor& tensor : item.tensors) tensors_.emplace(tensor.name, &tensor);
}

const ItemTensor* SavedItemReader::stated(const std::string& name) const {
  const auto tensor = tensors_.find(name);
  return tensor == tensors_.end() ? nullptr : tensor->second;
}

std::string SavedItemReader::named(const std::string& name) const {
  return name.empty() ? item_.name : item_.name + "." + name;
}

/// A DTensor states its mesh and its placements, too.
void SavedItemReader::check_part(const std::string& name, const DTensorPart& part,
                                 std::int64_t rank) const {
  const ItemTensor* tensor = stated(name);
  if (tensor == nullptr && name == kLoneTensor) tensor = stated("");
  const ItemGroup* const group = tensor == nullptr ? nullptr : group_of(*tensor, rank);
  if (group == nullptr || !group->sharding.mesh) return;
  const ItemSharding& sharding = group->sharding;
  const bool is_equal = part.place.full_shape == sharding.full_shape &&
                        (part.placements.empty() || (part.placements == sharding.placements &&
                                                     part.mesh_sizes == sharding.mesh->sizes));
  if (is_equal) return;
  refuse_difference(std::string("its DTensor is of ") + to_string(part.place.full_shape) +
                    " and cut otherwise than " + kItemTable +
                    " states: the file is of another save");
}

namespace {

/// Adds the boxes of a stored tensor to `out`.
void add_boxes(const TorchTensor& tensor, const ItemSharding& sharding, const DTensorPlace* own,
               const FoundFile& file, TorchSave& out) {
  const std::string where = "in '" + printable(file.path.filename().string()) + "'";
  const std::int64_t rank = file.rank.number();
  const std::optional<Shape> shape = stored_shape(sharding, rank);
  if (tensor.dtype != sharding.dtype || (shape && *shape != tensor.shape)) {
    refuse_difference("it is " + type_words(tensor.dtype, tensor.shape) + " " + where + ", but " +
                      type_words(sharding.dtype, shape ? *shape : tensor.shape) + " by " +
                      kItemTable + ": the file is of another save");
  }
  std::vector<ItemBox> boxes = boxes_of(sharding, rank);
  if (own != nullptr && !boxes.empty() &&
      (own->offsets != boxes.front().offsets || own->sizes != boxes.front().sizes)) {
    refuse_difference("its DTensor " + where + " is the part at " + to_string(own->offsets) +
                      ", but that at " + to_string(boxes.front().offsets) + " by " + kItemTable +
                      ": the file is of another save");
  }
  const auto add = [&](TorchTensor part, const Shape& offsets) {
    out.places.emplace(out.tensors.size(),
                       DTensorPlace{sharding.full_shape, offsets, part.shape, rank});
    out.tensors.push_back(std::move(part));
  };
  for (const ItemBox& box : boxes) {
    if (!is_box_inside(box, tensor.shape)) {
      refuse_difference("a box of " + to_string(box.sizes) + " at " + to_string(box.local) +
                        " is outside of what is stored " + where + ", " + to_string(tensor.shape) +
                        ": the file is of another save");
    }
    if (is_packed(tensor.dtype) && box.sizes != tensor.shape) {
      refuse_difference("a box of it has elements that share bytes with others");
    }
    add(view_of(tensor, box), box.offsets);
  }
  // Without elements it is nowhere, but has a name, a type and a shape.
  if (boxes.empty() && !sharding.full_shape.empty()) {
    TorchTensor nothing = tensor;
    nothing.shape.assign(sharding.full_shape.size(), 0);
    nothing.strides = nothing.shape;
    add(std::move(nothing), Shape(sharding.full_shape.size(), 0));
  }
}

}  // namespace

void SavedItemReader::place(const FoundFile& file, const TorchSave& saved, Placed& out) const {
  for (std::size_t i = 0; i < saved.tensors.size(); ++i) {
    const TorchTensor& tensor = saved.tensors[i];
    out.seen.insert(tensor.name);
    const ItemTensor* const stated = this->stated(tensor.name);
    if (stated == nullptr) {
      out.refuse(tensor.name, std::string(kItemTable) + " does not state its parts, and '" +
                                  printable(file.path.filename().string()) + "' has one");
      continue;
    }
    if (!stated->problem.empty()) continue;
    const ItemGroup* const group = group_of(*stated, file.rank.number());
    if (group == nullptr) {
      out.refuse(tensor.name, std::string(kItemTable) + " states no part of it for rank " +
                                  to_string(file.rank) + ", whose file has one");
      continue;
    }
    const auto place = saved.places.find(i);
    const bool states_itself = place != saved.places.end() && group->sharding.mesh != nullptr;
    try {
      add_boxes(tensor, group->sharding, states_itself ? &place->second : nullptr, file, out.saved);
    } catch (const Error& error) {
      out.refuse(tensor.name, error.message());
    }
  }
}

/// What the table states must be in the file.
void SavedItemReader::require_stated(const FoundFile& file, Placed& out) const {
  for (const ItemTensor& tensor : item_.tensors) {
    if (!tensor.problem.empty()) {
      out.refuse(tensor.name, tensor.problem);
      continue;
    }
    if (out.seen.contains(tensor.name)) continue;
    if (group_of(tensor, file.rank.number()) == nullptr) continue;
    out.refuse(tensor.name, "'" + printable(file.path.filename().string()) +
                                "' does not have it, but should have a part of it by " +
                                kItemTable);
  }
}

TorchSave SavedItemReader::read(const FoundFile& file, const ByteSource& source) const {
  const auto rank = static_cast<std::size_t>(file.rank.number());
  TorchSaveRules rules{DTensors::kPlaced, /*may_lack_tensors=*/true};
  rules.check_part = [&](const std::string& name, const DTensorPart& part) {
    check_part(name, part, file.rank.number());
  };
  Placed out;
  if (item_.layouts[rank].format == ItemFormat::kSafetensors) {
    if (!safetensors::holds_nothing(source))
      out.saved = tensors_in(read_index(input_format_of("model.safetensors"), source));
  } else {
    out.saved = read_archive(
        source, [&](const TorchArchive& archive) { return read_torch_save(archive, rules); });
  }
  TorchSave& saved = out.saved;
  require_own_rank(file, saved);
  if (saved.is_lone) {  // the item is that tensor
    for (TorchTensor& tensor : saved.tensors) tensor.name.clear();
    for (RefusedTensor& tensor : saved.refused) tensor.name.clear();
  }
  const bool has_tensors = !saved.tensors.empty() || !saved.refused.empty();
  if (stated_) {
    for (const RefusedTensor& tensor : saved.refused) out.seen.insert(tensor.name);
    TorchSave found = std::move(saved);
    saved = TorchSave();
    saved.refused = std::move(found.refused);
    saved.beside = std::move(found.beside);
    place(file, found, out);
    require_stated(file, out);
  }
  for (TorchTensor& tensor : saved.tensors) tensor.name = named(tensor.name);
  for (RefusedTensor& tensor : saved.refused) tensor.name = named(tensor.name);
  for (SavedValue& value : saved.beside.values) value.name = named(value.name);
  saved.beside.wrappers.clear();
  if (has_tensors && is_model_key(item_.name)) saved.beside.wrappers.push_back(item_.name);
  return std::move(saved);
}

}  // namespace reshardfs
