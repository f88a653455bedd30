// SPDX-License-Identifier: Apache-2.0
#include "view/dcp/dcp_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "format/torch/dcp_table_writer.h"
#include "format/torch/pickle_globals.h"
#include "format/torch/torch_zip_writer.h"

namespace reshardfs {
namespace {

/// Where the next archive may begin.
std::uint64_t aligned(std::uint64_t offset) {
  return add_or_throw(offset, kTorchArchiveAlign - 1, "a file's size") / kTorchArchiveAlign *
         kTorchArchiveAlign;
}

/// How long archives are; of many boxes of one type and shape they are equally long.
class ArchiveLengths {
 public:
  std::uint64_t of(DType dtype, const Shape& shape) {
    const auto [found, is_new] = known_.try_emplace({dtype, shape}, 0);
    if (is_new) {
      const TorchArchiveFrame frame = torch_archive_frame(dtype, shape);
      const auto content = static_cast<std::uint64_t>(element_count(shape)) *
                           static_cast<std::uint64_t>(element_size(dtype));
      found->second = add_or_throw(frame.head.size() + frame.tail.size(), content, "a file's size");
    }
    return found->second;
  }

 private:
  std::map<std::pair<DType, Shape>, std::uint64_t> known_;
};

}  // namespace

DcpFiles::DcpFiles(BoxPlan plan, std::vector<PassedObject> objects,
                   std::unordered_map<std::string, DcpPath> paths, TorchRelease release)
    : plan_(std::move(plan)),
      objects_(std::move(objects)),
      paths_(std::move(paths)),
      release_(release) {
  require_types();
  require_names();
  place_all();
}

std::string DcpFiles::name(std::size_t file) {
  return "__" + std::to_string(file) + "_0.distcp";
}

/// Of types that PyTorch does not have, no archive is read either. 1.13 cannot load a table with a
/// type that it does not have, whichever tensors are wanted.
void DcpFiles::require_types() const {
  for (const TargetParameter* parameter : plan_.parameters()) {
    if (pickle::has_torch_type(parameter->dtype)) continue;
    throw Error(ErrorKind::kUnsupported, "is " + std::string(mindspore_name(parameter->dtype)) +
                                             ", which cannot be written for PyTorch")
        .for_parameter(parameter->name)
        .hint(
            "show it as safetensors (--views ranks, merged or hub), or leave it out with "
            "--exclude");
  }
  if (release_ != TorchRelease::k113) return;
  for (const TargetParameter* parameter : plan_.parameters()) {
    if (!pickle::storage_of(parameter->dtype).empty()) continue;
    throw Error(ErrorKind::kUnsupported, "is " + std::string(mindspore_name(parameter->dtype)) +
                                             ", a type that PyTorch 1.13 does not have")
        .for_parameter(parameter->name)
        .hint("leave --dcp-release out, convert it with --cast, or leave it out with --exclude");
  }
}

void DcpFiles::require_names() const {
  std::set<std::string_view> names;
  for (const PassedObject& object : objects_) names.insert(object.name);
  if (names.empty()) return;
  for (const TargetParameter* parameter : plan_.parameters()) {
    if (!names.contains(parameter->name)) continue;
    throw Error(ErrorKind::kBadInput,
                "has the same name as an object in the source that is not a tensor")
        .for_parameter(parameter->name)
        .hint("give it another name, or leave both out with --exclude");
  }
}

void DcpFiles::place_all() {
  ArchiveLengths lengths;
  item_places_.reserve(plan_.items().size());
  for (std::size_t file = 0; file < plan_.file_count(); ++file) {
    std::uint64_t end = 0;
    const auto place = [&](std::uint64_t length) {
      const ByteRange range(aligned(end), length);
      end = add_or_throw(range.offset(), length, "a file's size");
      return range;
    };
    for (std::size_t i = 0; i < object_count(file); ++i) {
      object_places_.push_back(place(objects_[i].length()));
    }
    for (const BoxPlan::Item& item : plan_.items_of(file)) {
      const TargetParameter& parameter = plan_.parameter(item);
      try {
        item_places_.push_back(place(lengths.of(parameter.dtype, plan_.box(item).sizes)));
      } catch (Error& error) {
        throw error.for_parameter(parameter.name);
      }
    }
  }
}

std::uint64_t DcpFiles::size(std::size_t file) const {
  const std::size_t first = plan_.first_item(file);
  const std::size_t items = plan_.items_of(file).size();
  if (items > 0) return item_places_[first + items - 1].end();
  return object_count(file) > 0 ? object_places_.back().end() : 0;
}

std::string DcpFiles::table() const {
  DcpTable table;
  table.paths = paths_;
  for (std::size_t file = 0; file < count(); ++file) table.files.push_back(name(file));
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    table.byte_items.push_back({objects_[i].name, {0, object_places_[i]}});
  }
  std::vector<std::size_t> first_boxes;
  std::size_t boxes = 0;
  for (std::size_t i = 0; i < plan_.parameters().size(); ++i) {
    const TargetParameter& parameter = *plan_.parameters()[i];
    DcpTensor tensor{parameter.name, parameter.dtype,       parameter.grid->full_shape(),
                     boxes,          plan_.boxes(i).size(), table.bounds.size()};
    for (const Box& box : plan_.boxes(i)) {
      table.bounds.insert(table.bounds.end(), box.offsets.begin(), box.offsets.end());
      table.bounds.insert(table.bounds.end(), box.sizes.begin(), box.sizes.end());
    }
    first_boxes.push_back(boxes);
    boxes += tensor.boxes;
    if (tensor.boxes > 0) table.tensors.push_back(std::move(tensor));
  }
  table.places.resize(boxes);
  for (std::size_t file = 0; file < count(); ++file) {
    std::size_t number = plan_.first_item(file);
    for (const BoxPlan::Item& item : plan_.items_of(file)) {
      table.places[first_boxes[item.parameter] + item.box] = {static_cast<std::uint32_t>(file),
                                                              item_places_[number++]};
    }
  }
  return write_dcp_table(table, release_ == TorchRelease::k113 ? kDcpModulesOf113 : DcpModules());
}

DcpFile::DcpFile(std::shared_ptr<const DcpFiles> files, std::size_t number)
    : PartedFile(files->plan().target(), Rank(static_cast<std::int64_t>(number))),
      files_(std::move(files)),
      number_(number) {
  set_size(files_->size(number_));
}

std::optional<std::string> DcpFile::attribute(std::string_view name) const {
  if (name != "source") return PartedFile::attribute(name);
  return files_->plan().source_attribute(files_->plan().items_of(number_));
}

std::vector<PartedFile::Stretch> DcpFile::stretches() const {
  std::vector<Stretch> stretches;
  const std::size_t objects = files_->object_count(number_);
  const auto add = [&](const ByteRange& place, std::size_t number) {
    // An object may be without bytes, and then is no part.
    if (!stretches.empty() && stretches.back().begin == place.offset()) stretches.pop_back();
    stretches.push_back({place.offset(), number});
  };
  for (std::size_t i = 0; i < objects; ++i) add(files_->object_place(i), i);
  const std::size_t first = files_->plan().first_item(number_);
  for (std::size_t i = 0; i < files_->plan().items_of(number_).size(); ++i) {
    add(files_->item_place(first + i), objects + i);
  }
  return stretches;
}

void DcpFile::append_to(FileImage& image, std::size_t number) const {
  const std::size_t objects = files_->object_count(number_);
  ByteRange place;
  if (number < objects) {
    const PassedObject& object = files_->object(number);
    place = files_->object_place(number);
    if (object.made) {
      image.append_literal(*object.made);
    } else {
      image.append_source(*object.source, object.place);
    }
  } else {
    const BoxPlan& plan = files_->plan();
    const std::size_t item = plan.first_item(number_) + number - objects;
    place = files_->item_place(item);
    const BoxPlan::Item& box = plan.items()[item];
    const TorchArchiveFrame frame =
        torch_archive_frame(plan.parameter(box).dtype, plan.box(box).sizes);
    image.append_literal(frame.head);
    image.append(plan.view(box));
    image.append_literal(frame.tail);
  }
  // Up to where the next one begins.
  const std::uint64_t end = std::min(aligned(place.end()), size());
  image.append_literal(std::string(static_cast<std::size_t>(end - place.end()), '\0'));
}

/// Everything belongs to an object or an archive.
void DcpFile::read_frame(std::uint64_t /*offset*/, std::span<std::byte> /*out*/) const {
  throw Error(ErrorKind::kInternal, "a file of boxes has no frame");
}

std::vector<const TargetParameter*> DcpFile::parameters() const {
  std::vector<const TargetParameter*> parameters;
  for (const BoxPlan::Item& item : files_->plan().items_of(number_)) {
    parameters.push_back(&files_->plan().parameter(item));
  }
  return parameters;
}

}  // namespace reshardfs
