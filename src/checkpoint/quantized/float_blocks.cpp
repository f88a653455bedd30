// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/layouts.h"

namespace reshardfs {
namespace {

/// DeepSeek-V4's experts have these blocks, whatever weight_block_size says.
constexpr BlockShape kExpertBlock{1, 32};

class FloatBlocks {
 public:
  FloatBlocks(ModelParts& parts, const QuantizationStatement& statement) : parts_(parts) {
    const JsonValue stated = statement.value();
    is_stated_ = !statement.method.empty();
    if (is_stated_) block_ = stated_block(stated, statement.file);
    bytes_are_powers_ = statement.method == "mxfp8" || stated["scale_fmt"].text() == "ue8m0";
    has_small_experts_ = stated["expert_dtype"].text() == "fp4";
  }

  void find() {
    for (const TensorEntry* const entry : parts_.entries()) {
      const bool may_be_expert = entry->dtype == DType::kInt8 && has_small_experts_;
      const bool is_weight = entry->dtype == DType::kFloat8E4M3 && !parts_.is_left_out(*entry);
      if (!is_weight && !may_be_expert) continue;
      if (!weight_of_scale(entry->name).empty()) continue;
      const auto [module, part] = module_name(entry->name);
      const TensorEntry* scale = parts_.find(entry->name + std::string(kScaleSuffix));
      if (scale == nullptr && part == "weight") scale = parts_.find(module, "scale");
      if (scale == nullptr) {
        parts_.refuse(
            "there is no tensor of this name with '" + std::string(kScaleSuffix) + "' behind it",
            entry->name);
        continue;
      }
      parts_.leave_out(*scale);
      add(*entry, *scale);
    }
  }

 private:
  void add(const TensorEntry& entry, const TensorEntry& scale) {
    QuantizedWeight weight;
    weight.shape = entry.shape;
    if (weight.shape.size() < 2) return parts_.refuse("it has no rows and columns", entry.name);
    if (!is_block_scale(scale.dtype) && !(scale.dtype == DType::kUInt8 && bytes_are_powers_)) {
      return parts_.refuse("its scale is of the type " + std::string(mindspore_name(scale.dtype)),
                           entry.name);
    }
    weight.codes = parts_.stored(entry);
    weight.row_bytes = static_cast<std::uint64_t>(weight.shape.back());
    if (entry.dtype == DType::kInt8) {
      weight.kind = CodeKind::kE2M1;
      weight.bits = 4;
      weight.shape.back() *= 2;
      if (take_scales(parts_, entry, scale, kExpertBlock, weight)) {
        parts_.show(entry, entry.name, std::move(weight));
      }
      return;
    }
    const Shape scales = scale.shape;
    const bool is_one = element_count(scales) == 1 && scales.size() < 2;
    if (!block_ && (!is_stated_ || !is_one)) {
      return parts_.refuse("no config.json states quantization_config.weight_block_size",
                           entry.name);
    }
    if (block_) {
      if (!take_scales(parts_, entry, scale, *block_, weight)) return;
    } else {
      weight.scales = parts_.stored(scale);
      weight.block = {weight.shape[weight.shape.size() - 2], weight.shape.back()};
    }
    parts_.show(entry, entry.name, std::move(weight));
  }

  ModelParts& parts_;
  bool is_stated_ = false;
  std::optional<BlockShape> block_;
  bool bytes_are_powers_ = false;   ///< a scale of UInt8 is one of Float8E8M0
  bool has_small_experts_ = false;  ///< in MXFP4
};

}  // namespace

void find_float_blocks(ModelParts& parts, const QuantizationStatement& statement) {
  FloatBlocks(parts, statement).find();
}

}  // namespace reshardfs
