// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/block_scales.h"

#include <vector>

#include "reshardfs/error.h"

#include "base/json/json_reader.h"
#include "base/json/json_value.h"
#include "base/json/json_writer.h"
#include "modelmap/variables.h"
#include "storage/local/directory.h"
#include "storage/small_file.h"

namespace reshardfs {
namespace {

constexpr const char* kQuantization = "quantization_config";
constexpr const char* kBlock = "weight_block_size";
constexpr std::int64_t kMostOfBlock = 1 << 30;

std::int64_t blocks_in(std::int64_t elements, std::int64_t block) {
  return elements / block + (elements % block == 0 ? 0 : 1);
}

/// @param without a member of the object that is left out; of those in it none is.
void copy_value(JsonReader& reader, JsonWriter& writer, std::string_view without = {}) {
  switch (reader.kind()) {
    case JsonKind::kNull:
      return writer.null();
    case JsonKind::kBoolean:
      return writer.boolean(reader.integer() != 0);
    case JsonKind::kInteger:
    case JsonKind::kOtherNumber:
      return writer.written(reader.text());
    case JsonKind::kText:
      return writer.text(reader.text());
    case JsonKind::kList:
      writer.open_list();
      reader.enter();
      while (reader.next()) copy_value(reader, writer);
      return writer.close_list();
    case JsonKind::kObject:
      writer.open_object();
      reader.enter();
      while (reader.next()) {
        if (!without.empty() && reader.key() == without) continue;
        writer.key(reader.key());
        copy_value(reader, writer);
      }
      return writer.close_object();
  }
}

}  // namespace

std::optional<BlockShape> read_block_shape(const std::filesystem::path& config,
                                           const SourceTreePtr& tree) {
  if (config.empty() || path_kind(config, tree) != PathKind::kOther) return std::nullopt;
  const std::string text = read_small_file(config, modelmap::kMaxConfigBytes, tree);
  const auto document = JsonDocument::parse(text);
  if (!document || !document->value().is_object()) return std::nullopt;
  const auto quantization = document->value().find(kQuantization);
  if (!quantization || !quantization->is_object()) return std::nullopt;
  const auto block = quantization->find(kBlock);
  if (!block) return std::nullopt;
  std::vector<std::int64_t> lengths;
  for (const JsonValue value : *block) {
    const auto length = value.integer();
    if (length && *length > 0 && *length <= kMostOfBlock) lengths.push_back(*length);
  }
  if (!block->is_list() || block->size() != 2 || lengths.size() != 2) {
    throw Error(ErrorKind::kBadInput, "quantization_config.weight_block_size is no pair of lengths")
        .in_file(config.string());
  }
  return BlockShape{lengths[0], lengths[1]};
}

std::string without_quantization(std::string_view config) {
  JsonReader reader(config);
  reader.require(JsonKind::kObject);
  JsonWriter writer(JsonStyle{.after_key = ": ", .indent = 2});
  copy_value(reader, writer, kQuantization);
  reader.finish();
  return writer.take() + "\n";
}

std::string_view weight_of_scale(std::string_view name) {
  if (!name.ends_with(kScaleSuffix) || name.size() == kScaleSuffix.size()) return {};
  name.remove_suffix(kScaleSuffix.size());
  return name;
}

bool is_block_weight(DType dtype) noexcept {
  return dtype == DType::kFloat8E4M3;
}

bool is_block_scale(DType dtype) noexcept {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat8E8M0;
}

std::optional<Shape> scale_shape(const Shape& weight, const BlockShape& block) {
  if (weight.size() < 2) return std::nullopt;
  Shape shape = weight;
  const std::size_t columns = weight.size() - 1;
  shape[columns - 1] = blocks_in(weight[columns - 1], block.rows);
  shape[columns] = blocks_in(weight[columns], block.columns);
  return shape;
}

}  // namespace reshardfs
