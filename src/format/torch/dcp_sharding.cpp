// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_sharding.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_reader.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs::safetensors {
namespace {

constexpr const char* kInfo = "DCP_SHARDING_INFO";
constexpr std::string_view kOffsets = "saved_offsets";
constexpr const char* kPartPrefix = "shard-";
constexpr std::uint64_t kMostOffset = 1ULL << 62U;
constexpr std::size_t kMostDepth = 15;

Error bad_info(const std::string& what) {
  return Error(ErrorKind::kBadInput, std::string("its ") + kInfo + " " + what);
}

Error no_place(const std::string& name) {
  return bad_info("does not state where it begins").for_parameter(name);
}

Shape read_offsets(JsonReader& reader, const std::string& name) {
  if (reader.kind() != JsonKind::kList) throw no_place(name);
  Shape offsets;
  reader.enter();
  while (reader.next()) {
    const auto offset = reader.unsigned_integer();
    if (!offset && reader.kind() != JsonKind::kInteger) throw no_place(name);
    if (!offset || *offset > kMostOffset || offsets.size() == kMostTorchDimensions) {
      throw bad_info("has offsets that do not fit its shape").for_parameter(name);
    }
    offsets.push_back(static_cast<std::int64_t>(*offset));
  }
  return offsets;
}

/// {"saved_offsets": [0, 8], ...}; what else a tensor's object has is passed over.
Shape read_place(JsonReader& reader, const std::string& name) {
  if (reader.kind() != JsonKind::kObject) throw no_place(name);
  std::optional<Shape> offsets;
  reader.enter();
  while (reader.next()) {
    if (reader.key() != kOffsets) continue;
    if (offsets) throw no_place(name);
    offsets = read_offsets(reader, name);
  }
  if (!offsets) throw no_place(name);
  return std::move(*offsets);
}

/// {"name": {"saved_offsets": [0, 8], ...}, ...}
void read_places(JsonReader& reader, PartOffsets& out) {
  if (reader.kind() != JsonKind::kObject) throw bad_info("does not state where it begins");
  reader.enter();
  while (reader.next()) {
    const std::string name(reader.key());
    const auto [place, is_new] = out.try_emplace(name);
    if (!is_new) throw bad_info("has it twice").for_parameter(name);
    place->second = read_place(reader, name);
  }
  reader.finish();
}

}  // namespace

PartOffsets part_offsets(const ParsedHeader& header, const std::string& name) {
  PartOffsets out;
  const auto found = header.metadata.find(kInfo);
  if (found == header.metadata.end()) return out;
  const std::string subject = std::string("its ") + kInfo + " ";
  JsonReader reader(found->second,
                    {.subject = subject, .offset = std::nullopt, .max_depth = kMostDepth});
  read_places(reader, out);
  bool has_part = std::filesystem::path(name).filename().string().starts_with(kPartPrefix);
  for (const ParsedTensor& tensor : header.tensors) {
    const auto place = out.find(std::string(tensor.name));
    if (place == out.end()) {
      throw bad_info("does not state where it begins").for_parameter(std::string(tensor.name));
    }
    const Shape& offsets = place->second;
    if (offsets.size() != tensor.shape.size()) {
      throw bad_info("has offsets that do not fit its shape")
          .for_parameter(std::string(tensor.name));
    }
    has_part = has_part || std::any_of(offsets.begin(), offsets.end(),
                                       [](std::int64_t offset) { return offset != 0; });
  }
  if (!has_part) out.clear();
  return out;
}

}  // namespace reshardfs::safetensors
