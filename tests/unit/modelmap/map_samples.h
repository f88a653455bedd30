// SPDX-License-Identifier: Apache-2.0
/// Maps from texts, and checkpoints in memory.
#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/cast.h"
#include "modelmap/mapping.h"
#include "support/form_places.h"

namespace reshardfs::modelmap::testing {

/// Files by path.
using MapFiles = std::map<std::string, std::string>;

inline ModelMap map_of(const MapFiles& files, const std::string& path = "map.toml") {
  return load_model_map(path, [&](const std::filesystem::path& file) {
    const auto found = files.find(file.string());
    if (found != files.end()) return found->second;
    throw Error(ErrorKind::kMissing, "cannot open").in_file(file.string());
  });
}

inline ModelMap map_of(const std::string& text) {
  return map_of(MapFiles{{"map.toml", text}});
}

inline std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::kMissing, "cannot open").in_file(path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The sources of the repository; tests of another layer get the same definition.
inline std::filesystem::path repository() {
  return std::filesystem::path(RESHARDFS_GOLDEN_DIR) / ".." / "..";
}

inline ModelMap installed_map(const std::string& name) {
  return load_model_map(repository() / "config/maps" / (name + ".toml"), text_of_file);
}

/// What `refuse` throws; "accepted" if nothing.
inline std::string refusal_of(const std::function<void()>& refuse) {
  try {
    refuse();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

using Bytes = std::vector<std::byte>;

/// Tensors with their bytes, by name.
struct MemoryTensor {
  DType dtype = DType::kFloat32;
  Shape shape{};
  Bytes bytes{};

  bool operator==(const MemoryTensor&) const = default;
};
using MemoryModel = std::map<std::string, MemoryTensor>;

/// The elements of a target in the type of its sources.
inline Bytes elements_of(const TargetTensor& target, const std::vector<const Bytes*>& sources) {
  const auto size = static_cast<std::size_t>(element_size(target.source_dtype));
  Bytes out;
  out.reserve(static_cast<std::size_t>(target.form->elements()) * size);
  for (const auto& [source, place] : test::places_of(*target.form)) {
    if (source < 0) {
      const Bytes literal = Literal{source, place}.bytes(target.source_dtype);
      out.insert(out.end(), literal.begin(), literal.end());
      continue;
    }
    const Bytes& from = *sources.at(target.sources.at(static_cast<std::size_t>(source)));
    const auto first =
        from.begin() + static_cast<std::ptrdiff_t>(place) * static_cast<std::ptrdiff_t>(size);
    out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(size));
  }
  return out;
}

inline std::vector<SourceTensor> tensors_of(const MemoryModel& model) {
  std::vector<SourceTensor> tensors;
  for (const auto& [name, tensor] : model) tensors.push_back({name, tensor.dtype, tensor.shape});
  return tensors;
}

/// The model of the other side.
inline MemoryModel mapped(const ModelMap& map, const MemoryModel& model,
                          const MapOptions& options) {
  std::vector<const Bytes*> sources;
  for (const auto& [name, tensor] : model) sources.push_back(&tensor.bytes);
  MemoryModel out;
  for (const TargetTensor& target : map_tensors(map, tensors_of(model), options).targets) {
    const Bytes elements = elements_of(target, sources);
    const std::int64_t count = target.form->elements();
    Bytes bytes(static_cast<std::size_t>(count * element_size(target.dtype)));
    if (target.dtype == target.source_dtype) {
      bytes = elements;
    } else {
      cast_elements(target.source_dtype, elements.data(), target.dtype, bytes.data(),
                    static_cast<std::size_t>(count));
    }
    out[target.name] = {target.dtype, target.shape(), std::move(bytes)};
  }
  return out;
}

inline MapOptions options(Direction direction, const std::string& config = "{}") {
  MapOptions out;
  out.direction = direction;
  out.config = ModelConfig::parse(config);
  return out;
}

/// "NAME [SHAPE]" of each.
inline std::vector<std::string> targets_of(const Mapping& mapping) {
  std::vector<std::string> lines;
  for (const TargetTensor& target : mapping.targets) {
    lines.push_back(target.name + " " + to_string(target.shape()));
  }
  return lines;
}

}  // namespace reshardfs::modelmap::testing
