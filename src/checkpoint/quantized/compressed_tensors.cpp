// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "checkpoint/quantized/codes.h"
#include "checkpoint/quantized/layouts.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kBitsInWord = 32;
constexpr std::int64_t kMostBits = 8;

std::int64_t words_for(std::int64_t codes, std::int64_t bits) {
  return blocks_in(codes * bits, kBitsInWord);
}

std::vector<std::int64_t> integers(const TensorEntry& entry, const std::vector<std::byte>& bytes) {
  std::vector<std::int64_t> numbers;
  if (entry.dtype == DType::kInt64) {
    numbers.resize(bytes.size() / sizeof(std::int64_t));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::int64_t));
  } else if (entry.dtype == DType::kInt32) {
    std::vector<std::int32_t> narrow(bytes.size() / sizeof(std::int32_t));
    std::memcpy(narrow.data(), bytes.data(), narrow.size() * sizeof(std::int32_t));
    numbers.assign(narrow.begin(), narrow.end());
  }
  return numbers;
}

class CompressedTensors {
 public:
  CompressedTensors(ModelParts& parts, const QuantizationStatement& statement)
      : parts_(parts), groups_(statement) {}

  void find() {
    for (const TensorEntry* const entry : parts_.entries()) {
      const auto [module, part] = module_name(entry->name);
      const bool is_packed = part == "weight_packed";
      const bool is_plain = part == "weight" &&
                            (entry->dtype == DType::kFloat8E4M3 || entry->dtype == DType::kInt8) &&
                            parts_.find(module, "weight_scale") != nullptr;
      if (is_packed || is_plain) add(*entry, module, is_packed);
    }
  }

 private:
  using Strategy = WeightGroup::Strategy;

  void add(const TensorEntry& entry, std::string_view module, bool is_packed) {
    const WeightGroup* const group = groups_.ignores(module) ? nullptr : groups_.group_of(module);
    const TensorEntry* const scale = parts_.find(module, "weight_scale");
    // What belongs to it is named once, with the weight.
    for (const char* const part : {"weight_scale", "weight_shape", "weight_zero_point",
                                   "weight_global_scale", "weight_g_idx"}) {
      if (const TensorEntry* const found = parts_.find(module, part)) parts_.leave_out(*found);
    }
    if (group == nullptr) {
      return parts_.refuse("config.json does not say how its module is quantized", entry.name);
    }
    if (scale == nullptr) return parts_.refuse("there is no weight_scale beside it", entry.name);
    const std::string name = name_in(module, "weight");
    if (is_packed && parts_.find(name) != nullptr) {
      return parts_.refuse("there is another weight of its module", entry.name);
    }
    QuantizedWeight weight;
    weight.shape = entry.shape;
    weight.bits = static_cast<unsigned>(group->bits);
    if (weight.shape.size() < 2) return parts_.refuse("it has no rows and columns", entry.name);
    weight.codes = parts_.stored(entry);
    const bool is_taken = !is_packed        ? take_plain(entry, *group, weight)
                          : group->is_float ? take_floats(entry, *group, module, weight)
                                            : take_integers(entry, *group, module, weight);
    if (!is_taken || !take_block_scales(entry, *scale, *group, weight)) return;
    if (!take_zeros(entry, module, *group, is_packed, weight)) return;
    parts_.show(entry, name, std::move(weight));
  }

  bool refuse(const TensorEntry& entry, const std::string& why) {
    parts_.refuse(why, entry.name);
    return false;
  }

  bool take_plain(const TensorEntry& entry, const WeightGroup& group, QuantizedWeight& weight) {
    const bool is_float = entry.dtype == DType::kFloat8E4M3;
    if (group.bits != kMostBits || group.is_float != is_float) {
      return refuse(entry, "config.json states another type for its module");
    }
    weight.kind = is_float ? CodeKind::kE4M3 : CodeKind::kSigned;
    weight.row_bytes = static_cast<std::uint64_t>(weight.shape.back());
    return true;
  }

  bool take_floats(const TensorEntry& entry, const WeightGroup& group, std::string_view module,
                   QuantizedWeight& weight) {
    const bool is_packed_type = group.bits == 4 && entry.dtype == DType::kFloat4E2M1;
    if (entry.dtype != DType::kUInt8 && !is_packed_type) {
      return refuse(entry, "it is of the type " + std::string(mindspore_name(entry.dtype)));
    }
    if (group.bits != 4 && group.bits != 6) {
      return refuse(entry,
                    "config.json states floats of " + std::to_string(group.bits) + " bits for it");
    }
    const std::int64_t bytes = is_packed_type ? weight.shape.back() / 2 : weight.shape.back();
    if (group.bits == 6 && bytes % 3 != 0) {
      return refuse(entry, "its rows do not end with a group of four codes");
    }
    weight.kind = group.bits == 4 ? CodeKind::kE2M1 : CodeKind::kE2M3;
    weight.shape.back() = bytes * 8 / group.bits;
    weight.row_bytes = static_cast<std::uint64_t>(bytes);
    const TensorEntry* const factor = parts_.find(module, "weight_global_scale");
    if ((factor != nullptr) != (group.strategy == Strategy::kTensorGroup)) {
      return refuse(entry, factor != nullptr
                               ? "config.json states no weight_global_scale for its module"
                               : "there is no weight_global_scale beside it");
    }
    if (factor == nullptr) return true;
    if (factor->dtype != DType::kFloat32 || element_count(Shape(factor->shape)) != 1) {
      return refuse(entry, "its weight_global_scale is not one Float32");
    }
    weight.factor = parts_.stored(*factor);
    weight.divides = true;
    return true;
  }

  bool take_integers(const TensorEntry& entry, const WeightGroup& group, std::string_view module,
                     QuantizedWeight& weight) {
    if (group.bits < 1 || group.bits > kMostBits) {
      return refuse(entry, "config.json states " + std::to_string(group.bits) + " bits for it");
    }
    if (!is_word(entry.dtype)) {
      return refuse(entry, "it is of the type " + std::string(mindspore_name(entry.dtype)));
    }
    const TensorEntry* const stated = parts_.find(module, "weight_shape");
    if (stated == nullptr) return refuse(entry, "there is no weight_shape beside it");
    const std::vector<std::int64_t> shape = integers(*stated, parts_.content(*stated));
    Shape words = weight.shape;
    if (shape.size() != words.size() || shape.back() < 0 ||
        shape.back() > words.back() * kBitsInWord) {
      return refuse(entry, "its weight_shape is that of another tensor");
    }
    words.back() = shape.back();
    if (!std::equal(shape.begin(), shape.end(), words.begin(), words.end()) ||
        weight.shape.back() != words_for(shape.back(), group.bits)) {
      return refuse(entry, "its weight_shape is that of another tensor");
    }
    if (const TensorEntry* const order = parts_.find(module, "weight_g_idx")) {
      const std::vector<std::int64_t> of = integers(*order, parts_.content(*order));
      if (of.empty() ||
          std::any_of(of.begin(), of.end(), [](auto group_of) { return group_of != -1; })) {
        parts_.refuse_form("its columns are in the order of weight_g_idx (act-order)", entry.name);
        return false;
      }
      weight.stated.push_back(parts_.stored(*order));
    }
    weight.stated.push_back(parts_.stored(*stated));
    weight.row_bytes = static_cast<std::uint64_t>(weight.shape.back()) * 4;
    weight.shape = words;
    weight.kind = CodeKind::kUnsigned;
    weight.offset = 1 << (group.bits - 1);
    return true;
  }

  bool take_block_scales(const TensorEntry& entry, const TensorEntry& scale,
                         const WeightGroup& group, QuantizedWeight& weight) {
    const std::int64_t rows = weight.shape[weight.shape.size() - 2];
    const std::int64_t columns = weight.shape.back();
    const bool is_power = is_exponent(scale.dtype);
    const bool is_small = scale.dtype == DType::kFloat8E4M3;
    const bool may_be_power = group.is_float && group.strategy == Strategy::kGroup;
    const bool must_be_power = may_be_power && group.bits < kMostBits;
    if (is_small != (group.strategy == Strategy::kTensorGroup) || (is_power && !may_be_power) ||
        (!is_power && must_be_power)) {
      return refuse(entry, "its scale is of the type " + std::string(mindspore_name(scale.dtype)));
    }
    switch (group.strategy) {
      case Strategy::kTensor:
        if (element_count(Shape(scale.shape)) != 1) {
          return refuse(entry, "its scale is not one value, as config.json states");
        }
        weight.block = {rows, columns};
        weight.scales = parts_.stored(scale);
        return true;
      case Strategy::kChannel:
        return take_scales(parts_, entry, scale, {1, kWholeRow}, weight);
      case Strategy::kBlock:
        return take_scales(parts_, entry, scale, group.block, weight);
      case Strategy::kGroup:
      case Strategy::kTensorGroup:
        if (columns % group.group != 0) {
          return refuse(
              entry, "its columns are no multiple of the group of " + std::to_string(group.group));
        }
        return take_scales(parts_, entry, scale, {1, group.group}, weight);
    }
    return false;
  }

  bool take_zeros(const TensorEntry& entry, std::string_view module, const WeightGroup& group,
                  bool is_packed, QuantizedWeight& weight) {
    const TensorEntry* const zeros = parts_.find(module, "weight_zero_point");
    const bool wants = !group.is_symmetric && !group.is_float;
    if ((zeros != nullptr) != wants) {
      return refuse(entry, zeros == nullptr ? "there is no weight_zero_point beside it"
                                            : "config.json states no zero point for its module");
    }
    if (zeros == nullptr) return true;
    Shape wanted = weight.scales.shape;
    if (is_packed && wanted.size() >= 2) {
      std::int64_t& rows = wanted[wanted.size() - 2];
      rows = words_for(rows, group.bits);
    }
    const bool is_of_each = group.strategy == Strategy::kTensor
                                ? !is_packed && weight.shape.size() == 2
                                : weight.block.rows == 1;
    if (!is_of_each || Shape(zeros->shape) != wanted ||
        zeros->dtype != (is_packed ? DType::kInt32 : DType::kInt8)) {
      return refuse(entry, "its weight_zero_point does not have a value for each scale");
    }
    weight.zeros = parts_.stored(*zeros);
    weight.zero_packing = is_packed ? ZeroPacking::kColumns : ZeroPacking::kInt8;
    if (is_packed) weight.zero_offset = 1 << (group.bits - 1);
    return true;
  }

  ModelParts& parts_;
  WeightGroups groups_;
};

}  // namespace

void find_compressed_tensors(ModelParts& parts, const QuantizationStatement& statement) {
  CompressedTensors(parts, statement).find();
}

}  // namespace reshardfs
