// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/nvfp4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/computed_elements.h"
#include "checkpoint/quantized/codes.h"
#include "checkpoint/quantized/dequantize.h"

namespace reshardfs {
namespace {

constexpr std::int64_t kMxColumns = 32;  ///< columns that share a scale
constexpr std::int64_t kNvColumns = 16;  ///< and in NVFP4
constexpr int kMxBias = 127;             ///< of a scale's exponent
constexpr int kMostOfE4m3 = 8;           ///< the exponent of its largest power of two
constexpr int kLeastOfE4m3 = -9;         ///< and of its smallest
constexpr std::byte kNanOfMx{0xff};
constexpr std::byte kSizesOfPair{0x77};  ///< of two codes, without their signs

bool is_mxfp4(const QuantizedWeight& weight) {
  return weight.kind == CodeKind::kE2M1 && is_exponent(weight.scales.dtype) && !weight.factor &&
         weight.block == BlockShape{1, kMxColumns} && !weight.has_one_scale();
}

/// A power of two in Float8E4M3.
std::byte e4m3_of(int exponent) {
  constexpr int kBias = 7;
  constexpr int kFractionBits = 3;
  const bool is_subnormal = exponent <= -kBias;
  return static_cast<std::byte>(is_subnormal ? 1 << (exponent - kLeastOfE4m3)
                                             : (exponent + kBias) << kFractionBits);
}

int exponent_of(std::byte scale) {
  return std::to_integer<int>(scale) - kMxBias;
}

std::uint64_t matrices_of(const QuantizedWeight& weight) {
  return weight.shape.size() == 3 ? static_cast<std::uint64_t>(weight.shape.front()) : 1;
}

std::uint64_t rows_of(const QuantizedWeight& weight) {
  return static_cast<std::uint64_t>(weight.shape[weight.shape.size() - 2]);
}

std::uint64_t blocks_of_row(const QuantizedWeight& weight) {
  return static_cast<std::uint64_t>(weight.shape.back() / kMxColumns);
}

std::vector<std::byte> stored_scales(const QuantizedWeight& weight, std::uint64_t matrix,
                                     std::uint64_t row, std::uint64_t rows) {
  const std::uint64_t of_row = blocks_of_row(weight);
  std::vector<std::byte> out(static_cast<std::size_t>(rows * of_row));
  const std::uint64_t begin = (matrix * rows_of(weight) + row) * of_row;
  weight.scales.source->read_at(weight.scales.place.offset() + begin, out);
  return out;
}

/// 0 if no scale of the matrix counts: blocks of zeros and NaNs do not.
std::byte largest_in(const QuantizedWeight& weight, std::uint64_t matrix) {
  constexpr std::uint64_t kRowsAtOnce = 1024;
  const std::uint64_t all = rows_of(weight);
  std::byte most{0};
  for (std::uint64_t row = 0; row < all; row += kRowsAtOnce) {
    for (const std::byte scale :
         stored_scales(weight, matrix, row, std::min(kRowsAtOnce, all - row))) {
      if (scale != kNanOfMx) most = std::max(most, scale);
    }
  }
  return most;
}

/// weight_scale
class ScalesContent final : public ComputedElements {
 public:
  explicit ScalesContent(std::shared_ptr<const NvScales> scales)
      : ComputedElements(1), scales_(std::move(scales)) {}

  std::uint64_t size() const override {
    return scales_->matrices() * scales_->rows() * 2 * scales_->columns();
  }

 private:
  void make(std::uint64_t first, std::uint64_t count, bool /*foreseen*/,
            std::byte* out) const override {
    constexpr std::uint64_t kRowsAtOnce = 256;
    const std::uint64_t of_row = 2 * scales_->columns();
    while (count > 0) {
      const std::uint64_t row = first / of_row;
      const std::uint64_t skipped = first % of_row;
      const std::uint64_t in_matrix = row % scales_->rows();
      const std::uint64_t rows =
          std::min({(skipped + count - 1) / of_row + 1, kRowsAtOnce, scales_->rows() - in_matrix});
      const auto made = scales_->scales(row / scales_->rows(), in_matrix, rows);
      const std::uint64_t done = std::min(count, made.size() - skipped);
      std::memcpy(out, made.data() + skipped, done);
      first += done;
      count -= done;
      out += done;
    }
  }
  void check_unchanged() const override { scales_->check_unchanged(); }

  std::shared_ptr<const NvScales> scales_;
};

/// weight_scale_2: one for each matrix
class FactorContent final : public ComputedElements {
 public:
  explicit FactorContent(std::shared_ptr<const NvScales> scales)
      : ComputedElements(sizeof(float)), scales_(std::move(scales)) {}

  std::uint64_t size() const override { return scales_->matrices() * sizeof(float); }

 private:
  void make(std::uint64_t first, std::uint64_t count, bool /*foreseen*/,
            std::byte* out) const override {
    for (std::uint64_t i = 0; i < count; ++i, out += sizeof(float)) {
      const float factor = std::ldexp(1.0F, scales_->largest(first + i) - kMostOfE4m3);
      std::memcpy(out, &factor, sizeof factor);
    }
  }
  void check_unchanged() const override { scales_->check_unchanged(); }

  std::shared_ptr<const NvScales> scales_;
};

/// Runtimes multiply these by their inputs at once, as one weight with one weight_scale_2.
constexpr std::array<std::array<std::string_view, 3>, 4> kTogether{
    {{"gate_proj", "up_proj", ""},
     {"w1", "w3", ""},
     {"q_proj", "k_proj", "v_proj"},
     {"q_a_proj", "kv_a_proj_with_mqa", ""}}};

/// The modules that share the largest scale with a module, and itself.
std::vector<std::string> fused_with(std::string_view module) {
  const auto [parent, own] = module_name(module);
  for (const auto& group : kTogether) {
    if (std::find(group.begin(), group.end(), own) == group.end()) continue;
    std::vector<std::string> modules;
    for (const std::string_view one : group) {
      if (!one.empty()) modules.push_back(name_in(parent, one));
    }
    return modules;
  }
  return {std::string(module)};
}

/// The weights of a model, by their modules.
class NvWeights final : public WeightForm {
 public:
  std::string_view option() const override { return "--quantize nvfp4"; }

  void check(ModelParts& parts) override {
    for (const TensorEntry* const entry : parts.entries()) {
      const ModelParts::Shown* const shown = parts.shown(*entry);
      if (shown == nullptr) continue;
      if (!is_mxfp4(shown->weight)) {
        parts.refuse("it is not in MXFP4; other weights would lose bits", entry->name);
      } else if (shown->weight.is_transposed) {
        parts.refuse("no program is known that loads gpt-oss in NVFP4", entry->name);
      } else if (shown->weight.shape.size() > 3) {
        parts.refuse("it has more than three dimensions", entry->name);
      } else {
        weights_.emplace(std::string(module_name(shown->name).module),
                         std::make_shared<NvScales>(shown->weight));
      }
    }
    for (const auto& [module, weight] : weights_) {
      for (const std::string& other : fused_with(module)) {
        const auto found = weights_.find(other);
        if (other != module && found != weights_.end()) weight->share_with(*found->second);
      }
    }
  }

  void show(const TensorEntry& codes, const ModelParts::Shown& shown, AppendedSource& file,
            std::vector<TensorEntry>& out) override {
    const auto [module, part] = module_name(shown.name);
    const std::shared_ptr<const NvScales> scales = weights_.at(std::string(module));
    TensorEntry weight = codes;
    weight.name = shown.name;
    weight.dtype = DType::kUInt8;
    Shape shape = shown.weight.shape;
    shape.back() /= 2;
    weight.shape = shape;
    out.push_back(std::move(weight));
    shape.back() = shown.weight.shape.back() / kNvColumns;
    out.push_back(computed(shown.name + "_scale", DType::kFloat8E4M3, shape, file,
                           std::make_unique<const ScalesContent>(scales)));
    const Shape factors = shape.size() == 3 ? Shape{shape.front()} : Shape{};
    out.push_back(computed(shown.name + "_scale_2", DType::kFloat32, factors, file,
                           std::make_unique<const FactorContent>(scales)));
  }

 private:
  static TensorEntry computed(std::string name, DType dtype, const Shape& shape,
                              AppendedSource& file,
                              std::unique_ptr<const ComputedContent> content) {
    TensorEntry entry;
    entry.name = std::move(name);
    entry.dtype = dtype;
    entry.shape = shape;
    entry.content_bytes = content->size();
    if (entry.content_bytes > 0) entry.extents = FileExtents{file.append(std::move(content))};
    return entry;
  }

  std::map<std::string, std::shared_ptr<NvScales>> weights_;
};

}  // namespace

std::uint64_t NvScales::matrices() const {
  return matrices_of(weight_);
}

std::uint64_t NvScales::rows() const {
  return rows_of(weight_);
}

std::uint64_t NvScales::columns() const {
  return blocks_of_row(weight_);
}

NvScales::NvScales(QuantizedWeight weight)
    : weight_(std::move(weight)), largest_(static_cast<std::size_t>(matrices_of(weight_))) {}

int NvScales::largest(std::uint64_t matrix) const {
  // Several threads may find the same.
  std::atomic<int>& known = largest_[matrix];
  if (const int found = known.load(); found != 0) return found - kMxBias;
  std::byte most = largest_in(weight_, matrix);
  for (const QuantizedWeight& other : others_) {
    if (matrix < matrices_of(other)) most = std::max(most, largest_in(other, matrix));
  }
  const int found = most == std::byte{0} ? kMxBias : std::to_integer<int>(most);
  known.store(found);
  return found - kMxBias;
}

void NvScales::check_unchanged() const {
  weight_.codes.source->check_unchanged();
  weight_.scales.source->check_unchanged();
  for (const QuantizedWeight& other : others_) other.scales.source->check_unchanged();
}

bool NvScales::is_zero(std::uint64_t matrix, std::uint64_t row, std::uint64_t block) const {
  std::array<std::byte, kMxColumns / 2> codes;
  const std::uint64_t begin = (matrix * rows() + row) * weight_.row_bytes + block * codes.size();
  weight_.codes.source->read_at(weight_.codes.place.offset() + begin, codes);
  return std::all_of(codes.begin(), codes.end(),
                     [](std::byte pair) { return (pair & kSizesOfPair) == std::byte{0}; });
}

std::vector<std::byte> NvScales::scales(std::uint64_t matrix, std::uint64_t row,
                                        std::uint64_t rows) const {
  const int most = largest(matrix);
  const std::vector<std::byte> from = stored_scales(weight_, matrix, row, rows);
  std::vector<std::byte> out(2 * from.size());
  std::size_t lost = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    int exponent = exponent_of(from[i]) - most + kMostOfE4m3;
    const bool fits = from[i] != kNanOfMx && from[i] != std::byte{0} && exponent >= kLeastOfE4m3;
    if (!fits) {
      exponent = kLeastOfE4m3;
      const bool is_lost =
          from[i] == kNanOfMx || !is_zero(matrix, row + i / columns(), i % columns());
      lost += is_lost ? 1 : 0;
    }
    out[2 * i] = out[2 * i + 1] = e4m3_of(exponent);
  }
  if (lost == 0) return out;
  throw Error(ErrorKind::kUnsupported, counted(lost, "block") + " of " + counted(rows, "row") +
                                           " has codes that NVFP4 cannot hold without loss: its "
                                           "scale is too far below the largest one, or NaN")
      .in_file(weight_.codes.source->name())
      .for_parameter(weight_.codes.name)
      .hint("--dequantize shows the weights in BFloat16");
}

void quantize_to_nvfp4(std::vector<RankFile>& files, bool has_layouts,
                       const std::filesystem::path& config, const SourceTreePtr& tree) {
  NvWeights weights;
  show_weights(files, has_layouts, config, tree, weights);
}

}  // namespace reshardfs
