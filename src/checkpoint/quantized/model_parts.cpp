// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/model_parts.h"

#include <utility>

namespace reshardfs {

ModuleName module_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {{}, name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string name_in(std::string_view module, std::string_view part) {
  return module.empty() ? std::string(part) : std::string(module) + "." + std::string(part);
}

ModelParts::ModelParts(std::span<const RankFile> files) : files_(files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const TensorEntry& entry : files[i].index->entries()) {
      entries_.push_back(&entry);
      places_.emplace(entry.name, Place{i, &entry});
    }
  }
}

const TensorEntry* ModelParts::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : found->second.entry;
}

const TensorEntry* ModelParts::find(std::string_view module, std::string_view part) const {
  return find(name_in(module, part));
}

StoredTensor ModelParts::stored(const TensorEntry& entry) {
  const RankFile& file = files_[places_.at(entry.name).file];
  if (entry.extents.size() != 1 || entry.encoding != ContentEncoding::kPlain) {
    if (entry.content_bytes > 0) refuse_form("it is in several pieces", entry.name);
    return {file.source, {}, entry.dtype, entry.shape, entry.name};
  }
  return {file.source, entry.extents.front(), entry.dtype, entry.shape, entry.name};
}

std::vector<std::byte> ModelParts::content(const TensorEntry& entry) const {
  const RankFile& file = files_[places_.at(entry.name).file];
  std::vector<std::byte> out;
  for (const ByteRange& extent : entry.extents) {
    const std::size_t begin = out.size();
    out.resize(begin + static_cast<std::size_t>(extent.length()));
    file.source->read_at(extent.offset(), std::span(out).subspan(begin));
  }
  return out;
}

void ModelParts::show(const TensorEntry& codes, std::string name, QuantizedWeight weight) {
  const ModuleName of = module_name(name);
  modules_.emplace(of.module);
  // What is packed as one tensor for all experts has no module of its own.
  if (of.part != "weight") modules_.insert(name);
  shown_.emplace(&codes, Shown{std::move(name), std::move(weight)});
}

void ModelParts::leave_out(const TensorEntry& entry) {
  left_out_.insert(&entry);
}

void ModelParts::refuse(const std::string& why, std::string_view name) {
  refused_[why].emplace_back(name);
  refused_names_.emplace(name);
}

void ModelParts::refuse_form(const std::string& why, std::string_view name) {
  forms_.insert(why);
  refuse(why, name);
}

const ModelParts::Shown* ModelParts::shown(const TensorEntry& entry) const {
  const auto found = shown_.find(&entry);
  return found == shown_.end() ? nullptr : &found->second;
}

}  // namespace reshardfs
