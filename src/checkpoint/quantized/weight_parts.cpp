// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/weight_parts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "checkpoint/quantized/codes.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kBitsOfByte = 8;
constexpr std::int64_t kBitsOfWord = 32;

using Along = WeightPart::Along;

/// So many codes fill whole units of some bits.
std::int64_t filling(std::int64_t unit, unsigned bits) {
  return unit / std::gcd(unit, static_cast<std::int64_t>(bits));
}

class WeightCuts {
 public:
  explicit WeightCuts(const ModelParts::Shown& shown)
      : shown_(shown), row_(shown.weight.shape.size() - 2), column_(row_ + 1) {}

  void add_to(std::map<std::string, WeightPart>& parts) {
    const QuantizedWeight& weight = shown_.weight;
    std::vector<std::pair<const StoredTensor*, std::vector<Along>>> found;
    found.emplace_back(&weight.codes, codes());
    found.emplace_back(&weight.scales, of_blocks(weight.scales));
    if (weight.zero_packing != ZeroPacking::kNone) found.emplace_back(&weight.zeros, zeros());
    if (weight.factor) found.emplace_back(&*weight.factor, of_matrices(*weight.factor));
    for (const StoredTensor& tensor : weight.stated) found.emplace_back(&tensor, stated(tensor));
    for (std::size_t i = 0; i < weight.shape.size(); ++i) {
      std::int64_t together = 1;
      for (const auto& [tensor, along] : found) together = std::lcm(together, along[i].together);
      for (auto& [tensor, along] : found) along[i].together = together;
    }
    for (auto& [tensor, along] : found) {
      if (weight.is_transposed) std::swap(along[row_], along[column_]);
      parts.emplace(tensor->name, WeightPart{shown_.name, weight.shown_shape(),
                                             tensor == &weight.codes, std::move(along)});
    }
  }

 private:
  std::vector<Along> codes() const {
    const QuantizedWeight& weight = shown_.weight;
    std::vector<Along> along = with_own_dimensions();
    switch (weight.packing) {
      case CodePacking::kStream: {
        const bool is_word = weight.codes.dtype == DType::kInt32;
        along[column_].together = filling(is_word ? kBitsOfWord : kBitsOfByte, weight.bits);
        // Blocks of bytes are in a dimension of their own.
        if (weight.codes.shape.size() > weight.shape.size()) {
          along[column_].together = weight.codes.shape.back() * kBitsOfByte / weight.bits;
        }
        break;
      }
      case CodePacking::kInterleaved:
        along[column_].together = filling(kBitsOfWord, weight.bits);
        break;
      case CodePacking::kWordsOfRows:
        along[row_].together = filling(kBitsOfWord, weight.bits);
        break;
    }
    return along;
  }

  std::vector<Along> of_blocks(const StoredTensor& tensor) const {
    const QuantizedWeight& weight = shown_.weight;
    std::vector<Along> along(weight.shape.size());
    if (weight.has_one_scale()) return along;
    if (tensor.shape.size() == 1) {
      along[row_].dimension = 0;
      return along;
    }
    along = with_own_dimensions();
    const auto share = [&](std::size_t dimension, std::int64_t block) {
      // A block of all of them can be cut anywhere, unless the configuration states its length.
      if (block <= weight.shape[dimension]) along[dimension].together = block;
      if (tensor.shape[dimension] == 1) along[dimension].dimension = std::nullopt;
    };
    share(row_, weight.block.rows);
    share(column_, weight.block.columns);
    return along;
  }

  std::vector<Along> zeros() const {
    const QuantizedWeight& weight = shown_.weight;
    std::vector<Along> along = of_blocks(weight.scales);
    if (weight.zero_packing == ZeroPacking::kInt8) return along;
    Along& packed = along[weight.zero_packing == ZeroPacking::kColumns ? row_ : column_];
    packed.together = std::lcm(packed.together, filling(kBitsOfWord, weight.bits));
    return along;
  }

  /// Numbers of groups count from the beginning of a row.
  std::vector<Along> stated(const StoredTensor& tensor) const {
    std::vector<Along> along(shown_.weight.shape.size());
    const std::size_t columns = shown_.weight.is_transposed ? row_ : column_;
    if (tensor.name.ends_with("g_idx")) {
      along[columns].together = std::max<std::int64_t>(shown_.weight.shape[columns], 1);
    }
    return along;
  }

  /// One value, or one for each of the first dimension.
  std::vector<Along> of_matrices(const StoredTensor& tensor) const {
    std::vector<Along> along(shown_.weight.shape.size());
    if (element_count(tensor.shape) > 1) along[0].dimension = 0;
    return along;
  }

  std::vector<Along> with_own_dimensions() const {
    std::vector<Along> along(shown_.weight.shape.size());
    for (std::size_t i = 0; i < along.size(); ++i) along[i].dimension = i;
    return along;
  }

  const ModelParts::Shown& shown_;
  std::size_t row_;
  std::size_t column_;
};

}  // namespace

std::string form_words(const QuantizedWeight& weight) {
  const bool is_of_mx = is_exponent(weight.scales.dtype) && weight.block == BlockShape{1, 32};
  std::string words = is_integer(weight.kind) ? "INT"
                      : is_of_mx              ? "MXFP"
                      : weight.factor         ? "NVFP"
                                              : "FP";
  words += std::to_string(weight.bits);
  const auto [rows, columns] = weight.block;
  if (weight.has_one_scale()) return words + " with one scale";
  if (rows == 1 && columns == kWholeRow) return words + " by row";
  if (rows == 1) return words + " in groups of " + std::to_string(columns);
  if (columns == 1) return words + " in groups of " + std::to_string(rows);
  return words + " in blocks of " + std::to_string(rows) + " x " + std::to_string(columns);
}

std::map<std::string, WeightPart> weight_parts(std::span<const ModelParts::Shown> weights) {
  std::map<std::string, WeightPart> parts;
  for (const ModelParts::Shown& shown : weights) WeightCuts(shown).add_to(parts);
  return parts;
}

}  // namespace reshardfs
