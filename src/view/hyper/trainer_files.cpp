// SPDX-License-Identifier: Apache-2.0
#include "view/hyper/trainer_files.h"

#include <bit>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/content_size.h"
#include "format/safetensors/safetensors_writer.h"
#include "format/torch/dcp_table_writer.h"
#include "format/torch/pickle_globals.h"
#include "view/files/parted_file.h"
#include "view/files/text_file.h"
#include "view/merged/hub_shards.h"

namespace reshardfs {
namespace {

constexpr const char* kObjectsFile = "objects.bytes";
constexpr const char* kStepsFile = "steps.safetensors";
constexpr const char* kStepKey = "step";

std::uint64_t bytes_of(const TrainerTensor& tensor) {
  return static_cast<std::uint64_t>(
      content_size(tensor.parameter->grid->full_shape(), tensor.dtype, "a file's size"));
}

}  // namespace

std::string dotted_name(const DcpPath& path) {
  std::string name;
  for (const auto& key : path) {
    if (!name.empty()) name += '.';
    const auto* const text = std::get_if<std::string>(&key);
    name += text != nullptr ? *text : std::to_string(std::get<std::int64_t>(key));
  }
  return name;
}

/// Some of the tensors.
class TrainerFiles::TensorsFile final : public SafetensorsFile {
 public:
  TensorsFile(std::shared_ptr<const TrainerFiles> set, const Part& part)
      : SafetensorsFile(set->whole_, kWholeRank, set->common_),
        set_(std::move(set)),
        tensors_(std::span(set_->content_.tensors).subspan(part.begin, part.end - part.begin)) {
    measure();
  }

 private:
  std::vector<safetensors::HeaderTensor> tensors() const override {
    std::vector<safetensors::HeaderTensor> tensors;
    for (const TrainerTensor& tensor : tensors_) {
      tensors.push_back({tensor.name, tensor.dtype, tensor.parameter->grid->full_shape()});
    }
    return tensors;
  }

  void append_to(FileImage& image, std::size_t number) const override {
    const TrainerTensor& tensor = tensors_[number];
    image.append(
        {target().view(*tensor.parameter, rank()), tensor.parameter->source->dtype, tensor.dtype});
  }

  std::vector<const TargetParameter*> parameters() const override {
    std::vector<const TargetParameter*> parameters;
    for (const TrainerTensor& tensor : tensors_) parameters.push_back(tensor.parameter);
    return parameters;
  }

  std::shared_ptr<const TrainerFiles> set_;
  std::span<const TrainerTensor> tensors_;
};

/// The objects, one after the other.
class TrainerFiles::ObjectsFile final : public PartedFile {
 public:
  explicit ObjectsFile(std::shared_ptr<const TrainerFiles> set)
      : PartedFile(set->whole_, kWholeRank), set_(std::move(set)) {
    std::uint64_t bytes = 0;
    for (const auto& [path, object] : set_->content_.objects) {
      bytes = add_or_throw(bytes, object.length(), "a file's size");
    }
    set_size(bytes);
  }

 private:
  std::vector<Stretch> stretches() const override {
    std::vector<Stretch> stretches;
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < set_->content_.objects.size(); ++i) {
      const std::uint64_t bytes = set_->content_.objects[i].object.length();
      if (bytes > 0) stretches.push_back({begin, i});
      begin += bytes;
    }
    return stretches;
  }

  void append_to(FileImage& image, std::size_t number) const override {
    const PassedObject& object = set_->content_.objects[number].object;
    if (object.made) {
      image.append_literal(*object.made);
    } else {
      image.append_source(*object.source, object.place);
    }
  }

  /// Everything belongs to an object.
  void read_frame(std::uint64_t /*offset*/, std::span<std::byte> /*out*/) const override {
    throw Error(ErrorKind::kInternal, "a file of objects has no frame");
  }

  std::vector<const TargetParameter*> parameters() const override { return {}; }

  std::shared_ptr<const TrainerFiles> set_;
};

TrainerFiles::TrainerFiles(std::shared_ptr<const TargetTable> whole, TrainerContent content,
                           std::uint64_t limit,
                           std::shared_ptr<const SafetensorsFile::Common> common)
    : whole_(std::move(whole)), content_(std::move(content)), common_(std::move(common)) {
  name_tensors();
  require_names();
  require_types();
  add_parts("model", 0, content_.weights, limit);
  add_parts("optimizer", content_.weights, content_.tensors.size(), limit);
}

void TrainerFiles::name_tensors() {
  for (TrainerTensor& tensor : content_.tensors) tensor.name = dotted_name(tensor.path);
}

void TrainerFiles::require_names() const {
  std::set<std::string> names;
  const auto add = [&](std::string name, const std::string& from) {
    const auto [added, is_new] = names.insert(std::move(name));
    if (is_new) return;
    throw Error(ErrorKind::kBadInput,
                "would be called '" + printable(*added) + "' in hyper/, like another one")
        .for_parameter(from)
        .hint("leave one of them out with --exclude");
  };
  for (const TrainerTensor& tensor : content_.tensors) add(tensor.name, tensor.parameter->name);
  for (const auto& [path, tensor] : content_.aliases) {
    add(dotted_name(path), content_.tensors[tensor].parameter->name);
  }
  for (const DcpPath& path : content_.steps) add(dotted_name(path), dotted_name(path));
  for (const auto& [path, object] : content_.objects) add(dotted_name(path), object.name);
}

void TrainerFiles::require_types() const {
  for (const TrainerTensor& tensor : content_.tensors) {
    if (!pickle::text_of(tensor.dtype).empty()) continue;
    throw Error(ErrorKind::kUnsupported, "is " + std::string(mindspore_name(tensor.dtype)) +
                                             ", a type that hyper/ cannot hold")
        .for_parameter(tensor.parameter->name)
        .hint("leave it out with --exclude");
  }
}

void TrainerFiles::add_parts(std::string_view stem, std::size_t begin, std::size_t end,
                             std::uint64_t limit) {
  const std::size_t first = parts_.size();
  ShardFiller filler(limit);
  for (std::size_t i = begin; i < end; ++i) {
    if (filler.begins(bytes_of(content_.tensors[i]))) parts_.push_back({{}, i, i});
    parts_.back().end = i + 1;
  }
  for (std::size_t i = first; i < parts_.size(); ++i) {
    parts_[i].file =
        fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i - first + 1, parts_.size() - first);
  }
}

std::string TrainerFiles::steps_file() const {
  const std::vector<safetensors::HeaderTensor> one{{kStepKey, DType::kFloat32, {}}};
  std::string file = safetensors::make_header(one, {{"format", "pt"}}).bytes;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(content_.step));
  for (std::size_t byte = 0; byte < sizeof(bits); ++byte) {
    file += static_cast<char>(bits >> (8 * byte) & 0xff);
  }
  return file;
}

std::vector<OutputFile> TrainerFiles::all(const std::shared_ptr<const TrainerFiles>& self,
                                          const std::string& directory) {
  std::vector<OutputFile> files;
  for (const Part& part : self->parts_) {
    files.push_back({directory + part.file, std::make_shared<TensorsFile>(self, part)});
  }
  if (!self->content_.steps.empty()) {
    files.push_back({directory + kStepsFile, std::make_shared<TextFile>(self->steps_file())});
  }
  if (!self->content_.objects.empty()) {
    files.push_back({directory + kObjectsFile, std::make_shared<ObjectsFile>(self)});
  }
  files.push_back(
      {directory + ".metadata", std::make_shared<MadeFile>([self] { return self->table(); })});
  return files;
}

void TrainerFiles::add_tensor(const std::string& name, DType dtype, const Shape& shape,
                              const DcpPlace& place, DcpTable& table) const {
  table.tensors.push_back({name, dtype, shape, table.places.size(), 1, table.bounds.size()});
  table.places.push_back(place);
  table.bounds.insert(table.bounds.end(), shape.size(), 0);
  table.bounds.insert(table.bounds.end(), shape.begin(), shape.end());
}

std::string TrainerFiles::table() const {
  DcpTable table;
  table.by_name = true;
  std::vector<std::uint32_t> file_of;
  const auto key_of = [&](std::string key) {
    table.keys.push_back(std::move(key));
    return static_cast<std::uint32_t>(table.keys.size() - 1);
  };
  for (const Part& part : parts_) {
    const auto file = static_cast<std::uint32_t>(table.files.size());
    table.files.push_back(part.file);
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const TrainerTensor& tensor = content_.tensors[i];
      file_of.push_back(file);
      table.paths.emplace(tensor.name, tensor.path);
      add_tensor(tensor.name, tensor.dtype, tensor.parameter->grid->full_shape(),
                 {file, {}, key_of(tensor.name)}, table);
    }
  }
  for (const auto& [path, number] : content_.aliases) {
    const TrainerTensor& tensor = content_.tensors[number];
    const std::string name = dotted_name(path);
    table.paths.emplace(name, path);
    add_tensor(name, tensor.dtype, tensor.parameter->grid->full_shape(),
               {file_of[number], {}, key_of(tensor.name)}, table);
  }
  if (!content_.steps.empty()) {
    const DcpPlace place{static_cast<std::uint32_t>(table.files.size()), {}, key_of(kStepKey)};
    table.files.emplace_back(kStepsFile);
    for (const DcpPath& path : content_.steps) {
      const std::string name = dotted_name(path);
      table.paths.emplace(name, path);
      add_tensor(name, DType::kFloat32, {}, place, table);
    }
  }
  const auto objects = static_cast<std::uint32_t>(table.files.size());
  if (!content_.objects.empty()) table.files.emplace_back(kObjectsFile);
  std::uint64_t begin = 0;
  for (const auto& [path, object] : content_.objects) {
    const std::string name = dotted_name(path);
    table.paths.emplace(name, path);
    table.byte_items.push_back({name, {objects, {begin, object.length()}}});
    begin += object.length();
  }
  return write_dcp_table(table, kDcpModulesOfHyper);
}

}  // namespace reshardfs
