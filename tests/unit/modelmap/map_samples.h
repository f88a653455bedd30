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
#include "modelmap/form_runs.h"
#include "modelmap/mapping.h"

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
  const RunTree tree(target.form);
  const std::int64_t elements = target.form->elements();
  Bytes out(static_cast<std::size_t>(elements) * size);
  tree.for_each_run(0, elements, [&](const Run& run) {
    Bytes literal;
    if (run.source < 0) literal = Literal{run.source, run.first}.bytes(target.source_dtype);
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::byte* from = literal.data();
      if (run.source >= 0) {
        const auto source = target.sources.at(static_cast<std::size_t>(run.source));
        from = sources.at(source)->data() +
               static_cast<std::size_t>(run.first + i * run.stride) * size;
      }
      std::memcpy(out.data() + static_cast<std::size_t>(run.target + i) * size, from, size);
    }
  });
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

}  // namespace reshardfs::modelmap::testing
