// SPDX-License-Identifier: Apache-2.0
/// Layouts that need no more than a few rules each.
#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "reshardfs/error.h"

#include "base/text/glob.h"
#include "base/text/text.h"
#include "checkpoint/quantized/layouts.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kOfMx = 32;          ///< columns that share a scale in OCP's formats
constexpr std::int64_t kOfNv = 16;          ///< and in NVFP4
constexpr std::int64_t kBytesOfBlock = 16;  ///< of gpt-oss: 32 codes
constexpr std::int64_t kBitsPerWord = 32;

/// Of the first of these keys that is there; 0 if none is, which no layout allows.
std::int64_t number_in(const JsonValue& object, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const auto number = object[key].integer()) return *number;
  }
  return 0;
}

/// A layout of modelopt's: `weight` and `weight_scale`. Files of the program itself were compared
/// for NVFP4 alone; the others are as its sources state them.
struct Algorithm {
  std::string_view name;
  DType codes;
  CodeKind kind;
  DType scales;
  std::int64_t columns;  ///< that share a scale; 0: one for each row, or one for all
  bool has_factor;
};

constexpr std::array kAlgorithms{
    Algorithm{"FP8", DType::kFloat8E4M3, CodeKind::kE4M3, DType::kFloat32, 0, false},
    Algorithm{"FP8_PER_CHANNEL_PER_TOKEN", DType::kFloat8E4M3, CodeKind::kE4M3, DType::kFloat32, 0,
              false},
    Algorithm{"MXFP8", DType::kFloat8E4M3, CodeKind::kE4M3, DType::kUInt8, kOfMx, false},
    Algorithm{"NVFP4", DType::kUInt8, CodeKind::kE2M1, DType::kFloat8E4M3, kOfNv, true},
    Algorithm{"W4A16_NVFP4", DType::kUInt8, CodeKind::kE2M1, DType::kFloat8E4M3, kOfNv, true},
    Algorithm{"NVFP4_AWQ", DType::kUInt8, CodeKind::kE2M1, DType::kFloat8E4M3, kOfNv, true},
    Algorithm{"W4A8_MXFP4_FP8", DType::kUInt8, CodeKind::kE2M1, DType::kUInt8, kOfMx, false},
    Algorithm{"W8A8_SQ_PER_CHANNEL", DType::kInt8, CodeKind::kSigned, DType::kFloat32, 0, false},
};

class ModelOpt {
 public:
  ModelOpt(ModelParts& parts, const QuantizationStatement& statement)
      : parts_(parts), statement_(statement) {
    const JsonValue stated = statement.value();
    algorithm_ = stated_text(stated, "quant_algo");
    if (algorithm_ != "MIXED_PRECISION") static_cast<void>(known(algorithm_));
    for (const char* const key : {"ignore", "exclude_modules"}) {
      const auto list = stated.find(key);
      if (!list || !list->is_list()) continue;
      for (const JsonValue value : *list) {
        if (value.text()) ignored_.emplace_back(*value.text());
      }
    }
  }

  void find() {
    for (const TensorEntry* const entry : parts_.entries()) {
      const auto [module, part] = module_name(entry->name);
      if (part != "weight") continue;
      const TensorEntry* const scale = parts_.find(module, "weight_scale");
      if (scale != nullptr) add(*entry, *scale, module);
    }
  }

 private:
  const Algorithm& known(const std::string& name) const {
    for (const Algorithm& algorithm : kAlgorithms) {
      if (algorithm.name == name) return algorithm;
    }
    throw Error(ErrorKind::kUnsupported,
                "states modelopt's quant_algo '" + printable(name) + "', which is not known")
        .in_file(statement_.file);
  }

  const Algorithm* algorithm_of(std::string_view module) const {
    if (matches_any(ignored_, std::string(module))) return nullptr;
    if (algorithm_ != "MIXED_PRECISION") return &known(algorithm_);
    const auto layers = statement_.value().find("quantized_layers");
    const auto own = layers ? layers->find(module) : std::nullopt;
    return own ? &known(stated_text(*own, "quant_algo")) : nullptr;
  }

  void add(const TensorEntry& entry, const TensorEntry& scale, std::string_view module) {
    const TensorEntry* const factor = parts_.find(module, "weight_scale_2");
    parts_.leave_out(scale);
    if (factor != nullptr) parts_.leave_out(*factor);
    const Algorithm* const algorithm = algorithm_of(module);
    if (algorithm == nullptr) {
      return parts_.refuse("the configuration does not say how its module is quantized",
                           entry.name);
    }
    if (entry.dtype != algorithm->codes) {
      return parts_.refuse("it is of the type " + std::string(mindspore_name(entry.dtype)),
                           entry.name);
    }
    if (scale.dtype != algorithm->scales) {
      return parts_.refuse("its scale is of the type " + std::string(mindspore_name(scale.dtype)),
                           entry.name);
    }
    QuantizedWeight weight;
    weight.kind = algorithm->kind;
    weight.shape = entry.shape;
    if (weight.shape.size() < 2) return parts_.refuse("it has no rows and columns", entry.name);
    weight.row_bytes = static_cast<std::uint64_t>(weight.shape.back());
    weight.codes = parts_.stored(entry);
    if (algorithm->kind == CodeKind::kE2M1) {
      weight.bits = 4;
      weight.shape.back() *= 2;
    }
    if (algorithm->columns != 0) {
      if (weight.shape.back() % algorithm->columns != 0) {
        return parts_.refuse(
            "its columns are no multiple of the group of " + std::to_string(algorithm->columns),
            entry.name);
      }
      if (!take_scales(parts_, entry, scale, {1, algorithm->columns}, weight)) return;
    } else if (!take_rows(entry, scale, weight)) {
      return;
    }
    if ((factor != nullptr) != algorithm->has_factor) {
      return parts_.refuse(factor == nullptr ? "there is no weight_scale_2 beside it"
                                             : "it has a weight_scale_2, and its quant_algo none",
                           entry.name);
    }
    if (factor != nullptr && !take_factor(entry, *factor, weight)) return;
    parts_.show(entry, entry.name, std::move(weight));
  }

  /// [], [1], [rows] or [rows, 1].
  bool take_rows(const TensorEntry& entry, const TensorEntry& scale, QuantizedWeight& weight) {
    const Shape shape = scale.shape;
    const std::int64_t rows = weight.shape[weight.shape.size() - 2];
    const bool is_one = element_count(shape) == 1;
    const bool is_of_rows =
        weight.shape.size() == 2 && (shape == Shape{rows} || shape == Shape{rows, 1});
    if (!is_one && !is_of_rows) {
      parts_.refuse("its scale does not have a value for each row", entry.name);
      return false;
    }
    weight.scales = parts_.stored(scale);
    weight.block = {is_one ? std::max<std::int64_t>(rows, 1) : 1, kWholeRow};
    return true;
  }

  bool take_factor(const TensorEntry& entry, const TensorEntry& factor, QuantizedWeight& weight) {
    const Shape shape = factor.shape;
    const bool is_of_experts = weight.shape.size() == 3 && shape == Shape{weight.shape.front()};
    if (factor.dtype != DType::kFloat32 || (element_count(shape) != 1 && !is_of_experts)) {
      parts_.refuse("its weight_scale_2 is not one Float32", entry.name);
      return false;
    }
    weight.factor = parts_.stored(factor);
    return true;
  }

  ModelParts& parts_;
  const QuantizationStatement& statement_;
  std::string algorithm_;
  NameGlobs ignored_;
};

/// AWQ's and GPTQ's: codes of a column of the weight lie in words, whose fields go along the rows
/// of the weight (AWQ), or down its columns (GPTQ). A library's own values were compared for AWQ;
/// GPTQ's zero points are as its sources state them.
class IntegerWords {
 public:
  IntegerWords(ModelParts& parts, const QuantizationStatement& statement)
      : parts_(parts), is_awq_(statement.method == "awq") {
    const JsonValue stated = statement.value();
    bits_ = number_in(stated, {"bits", "w_bit"});
    group_ = number_in(stated, {"group_size", "q_group_size"});
    if (bits_ == 0 || group_ == 0) {
      throw Error(ErrorKind::kBadInput, "states no numbers for bits and group_size")
          .in_file(statement.file);
    }
    const std::string format = stated_text(stated, is_awq_ ? "version" : "checkpoint_format");
    const bool is_known = is_awq_ ? bits_ == 4 && (format == "gemm" || format == "GEMM")
                                  : (bits_ == 2 || bits_ == 4 || bits_ == 8) &&
                                        (format.empty() || format == "gptq" || format == "gptq_v2");
    if (!is_known || group_ < -1) {
      throw Error(ErrorKind::kUnsupported,
                  "states " + statement.method + " of " + std::to_string(bits_) +
                      " bits in groups of " + std::to_string(group_) +
                      (format.empty() ? "" : ", '" + printable(format) + "'") +
                      ", which is not known")
          .in_file(statement.file);
    }
    adds_one_ = !is_awq_ && format != "gptq_v2";
  }

  void find() {
    for (const TensorEntry* const entry : parts_.entries()) {
      const auto [module, part] = module_name(entry->name);
      if (part == "qweight") add(*entry, module);
    }
  }

 private:
  void add(const TensorEntry& entry, std::string_view module) {
    const TensorEntry* const scales = parts_.find(module, "scales");
    const TensorEntry* const zeros = parts_.find(module, "qzeros");
    const TensorEntry* const order = parts_.find(module, "g_idx");
    for (const TensorEntry* const part : {scales, zeros, order}) {
      if (part != nullptr) parts_.leave_out(*part);
    }
    if (scales == nullptr || zeros == nullptr) {
      return parts_.refuse("there are no scales and qzeros beside it", entry.name);
    }
    const std::string name = name_in(module, "weight");
    if (parts_.find(name) != nullptr) {
      return parts_.refuse("there is another weight of its module", entry.name);
    }
    const Shape words = entry.shape;
    if (words.size() != 2 || !is_word(entry.dtype) || !is_word(zeros->dtype)) {
      return parts_.refuse("it is no matrix of 32-bit words", entry.name);
    }
    const std::int64_t of_word = kBitsPerWord / bits_;
    QuantizedWeight weight;
    weight.kind = CodeKind::kUnsigned;
    weight.bits = static_cast<unsigned>(bits_);
    weight.packing = is_awq_ ? CodePacking::kInterleaved : CodePacking::kWordsOfRows;
    weight.codes = parts_.stored(entry);
    weight.row_bytes = static_cast<std::uint64_t>(words[1]) * 4;
    weight.shape =
        is_awq_ ? Shape{words[0], words[1] * of_word} : Shape{words[0] * of_word, words[1]};
    weight.is_transposed = true;
    const std::int64_t columns = weight.shape[0];
    const std::int64_t group = group_ == -1 ? std::max<std::int64_t>(columns, 1) : group_;
    if (columns % group != 0) {
      return parts_.refuse("its columns are no multiple of the group of " + std::to_string(group),
                           entry.name);
    }
    if (!take_scales(parts_, entry, *scales, {group, 1}, weight)) return;
    if (Shape(zeros->shape) != Shape{columns / group, weight.shape[1] / of_word} ||
        weight.shape[1] % of_word != 0) {
      return parts_.refuse("its qzeros do not have a value for each scale", entry.name);
    }
    if (order != nullptr && !is_in_order(*order, columns, group)) {
      return parts_.refuse_form("its columns are in the order of g_idx (act-order)", entry.name);
    }
    if (order != nullptr) weight.stated.push_back(parts_.stored(*order));
    weight.zeros = parts_.stored(*zeros);
    weight.zero_packing = ZeroPacking::kRows;
    if (adds_one_) {
      weight.zero_offset = -1;
      weight.zero_modulus = 1 << bits_;
    }
    parts_.show(entry, name, std::move(weight));
  }

  bool is_in_order(const TensorEntry& order, std::int64_t columns, std::int64_t group) const {
    if (order.dtype != DType::kInt32 || Shape(order.shape) != Shape{columns}) return false;
    const std::vector<std::byte> bytes = parts_.content(order);
    for (std::int64_t i = 0; i < columns; ++i) {
      std::int32_t of = 0;
      std::memcpy(&of, bytes.data() + static_cast<std::size_t>(i) * sizeof of, sizeof of);
      if (of != i / group) return false;
    }
    return true;
  }

  ModelParts& parts_;
  bool is_awq_ = false;
  std::int64_t bits_ = 0;
  std::int64_t group_ = 0;
  bool adds_one_ = false;  ///< to stored zero points
};

}  // namespace

void find_gpt_oss(ModelParts& parts, const QuantizationStatement& /*statement*/) {
  constexpr std::string_view kBlocks = "_blocks";
  constexpr std::string_view kScales = "_scales";
  for (const TensorEntry* const entry : parts.entries()) {
    if (!std::string_view(entry->name).ends_with(kBlocks)) continue;
    const std::string name = entry->name.substr(0, entry->name.size() - kBlocks.size());
    const TensorEntry* const scales = parts.find(name + std::string(kScales));
    if (scales == nullptr) {
      parts.refuse("there is no tensor of this name with '_scales' instead", entry->name);
      continue;
    }
    parts.leave_out(*scales);
    const Shape blocks = entry->shape;
    if (blocks.size() < 3 || blocks.back() != kBytesOfBlock || entry->dtype != DType::kUInt8 ||
        scales->dtype != DType::kUInt8 || parts.find(name) != nullptr) {
      parts.refuse("it does not have blocks of 16 bytes of UInt8", entry->name);
      continue;
    }
    QuantizedWeight weight;
    weight.kind = CodeKind::kE2M1;
    weight.bits = 4;
    weight.codes = parts.stored(*entry);
    weight.shape = Shape(blocks.begin(), blocks.end() - 1);
    weight.row_bytes = static_cast<std::uint64_t>(weight.shape.back() * kBytesOfBlock);
    weight.shape.back() *= kOfMx;
    weight.is_transposed = true;
    if (take_scales(parts, *entry, *scales, {1, kOfMx}, weight)) {
      parts.show(*entry, name, std::move(weight));
    }
  }
}

void find_modelopt(ModelParts& parts, const QuantizationStatement& statement) {
  ModelOpt(parts, statement).find();
}

void find_integer_words(ModelParts& parts, const QuantizationStatement& statement) {
  IntegerWords(parts, statement).find();
}

}  // namespace reshardfs
