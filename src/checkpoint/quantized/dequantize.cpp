// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/dequantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/cast.h"
#include "base/content_size.h"
#include "base/text/text.h"
#include "checkpoint/appended_source.h"
#include "checkpoint/quantized/block_scales.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kElementsAtOnce = 128ULL << 10U;
constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

/// A number that compilers know makes vectors of the loop.
constexpr std::size_t kLane = 64;

/// Weights of one sign, four bits of exponent with a bias of 7 and three of fraction, where all
/// ones is NaN, times a scale.
/// @param weights kLane of them. @param out twice as many bytes.
void scale_lane(const std::byte* weights, float scale, std::byte* out) noexcept {
  constexpr std::uint32_t kSize = 0x7f;
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint16_t kNan = 0x7fc0;
  // The fields take their places in a float32, whose bias is higher by 120. The product is exact,
  // also for what is subnormal on the left.
  constexpr float kBias = 0x1p120F;
  std::array<std::uint16_t, kLane> made;
  for (std::size_t i = 0; i < kLane; ++i) {
    const auto bits = std::to_integer<std::uint32_t>(weights[i]);
    const std::uint32_t size = bits & kSize;
    const auto exact = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size << 20U) * kBias);
    const float weight = std::bit_cast<float>(exact | (bits & 0x80U) << 24U);
    const auto product = std::bit_cast<std::uint32_t>(weight * scale);
    const std::uint32_t rounded = (product + 0x7fffU + (product >> 16U & 1U)) >> 16U;
    // Which NaN a product of a NaN is, depends on the processor; this is the one that PyTorch
    // rounds to.
    const std::uint32_t is_nan = static_cast<std::uint32_t>(size == kSize) |
                                 static_cast<std::uint32_t>((product & ~(1U << 31U)) > kInfinity);
    made[i] = static_cast<std::uint16_t>(is_nan != 0 ? kNan : rounded);
  }
  std::memcpy(out, made.data(), sizeof made);
}

/// A power of two with a bias of 127; 255 is NaN.
float from_e8m0(std::byte stored) noexcept {
  constexpr std::uint32_t kNan = 0x7fc00000;
  constexpr std::uint32_t kHalfOfTheSmallest = 0x00400000;  // 2^-127
  const auto bits = std::to_integer<std::uint32_t>(stored);
  if (bits == 0xff) return std::bit_cast<float>(kNan);
  return std::bit_cast<float>(bits == 0 ? kHalfOfTheSmallest : bits << 23U);
}

/// An entry of a file.
struct Place {
  std::size_t file = 0;
  const TensorEntry* entry = nullptr;
};

using Places = std::unordered_map<std::string_view, Place>;

void require_whole(const std::vector<RankFile>& files, bool has_layouts) {
  const bool several =
      has_layouts || std::any_of(files.begin(), files.end(), [&](const RankFile& file) {
        return file.rank != files.front().rank || file.index->has_boxes();
      });
  if (!several) return;
  throw Error(ErrorKind::kUsage,
              "--dequantize takes a model of whole tensors, and this checkpoint has slices")
      .hint("leave it out, or export the whole model first");
}

/// Finds the scale of each weight, and collects why some have none.
class Pairs {
 public:
  Pairs(const std::vector<RankFile>& files, std::optional<BlockShape> block)
      : files_(files), block_(block) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      for (const TensorEntry& entry : files[i].index->entries()) {
        if (is_block_weight(entry.dtype)) weights_.emplace_back(Place{i, &entry});
        if (!weight_of_scale(entry.name).empty()) scales_.emplace(entry.name, Place{i, &entry});
      }
    }
  }

  bool empty() const noexcept { return weights_.empty() && scales_.empty(); }

  /// The scale of each weight, by the weight's name.
  /// @throws Error kUnsupported
  Places find(const std::filesystem::path& config) {
    Places found;
    for (const Place& weight : weights_) {
      if (const auto scale = scale_of(*weight.entry)) found.emplace(weight.entry->name, *scale);
    }
    for (const auto& [name, place] : scales_) {
      const std::string_view weight = weight_of_scale(name);
      if (!found.contains(weight)) add("is a scale of no weight in 8-bit floats (F8_E4M3)", name);
    }
    if (problems_.empty()) return found;
    std::string words;
    for (const auto& [why, names] : problems_) {
      words += (words.empty() ? "" : "; ") + name_list(names) + ": " + why;
    }
    Error error(ErrorKind::kUnsupported, "--dequantize cannot scale " + words);
    error.in_file(files_.front().path.parent_path().string());
    if (block_) throw error.hint("leave it out: the tensors are then shown as they are");
    throw error.hint(config.empty() ? "bring the config.json that belongs to the model beside it"
                                    : printable(config.string()) + " must state it");
  }

 private:
  void add(const std::string& why, std::string_view name) { problems_[why].emplace_back(name); }

  std::optional<Place> scale_of(const TensorEntry& weight) {
    const auto scale = scales_.find(weight.name + std::string(kScaleSuffix));
    if (scale == scales_.end()) {
      add("there is no tensor of this name with '" + std::string(kScaleSuffix) + "' behind it",
          weight.name);
      return std::nullopt;
    }
    const TensorEntry& entry = *scale->second.entry;
    if (!block_) {
      add("no config.json states quantization_config.weight_block_size", weight.name);
    } else if (!is_block_scale(entry.dtype)) {
      add("its scale is of the type " + std::string(mindspore_name(entry.dtype)), weight.name);
    } else if (entry.shape != scale_shape(weight.shape, *block_)) {
      add("its scale does not have a value for each block of " + std::to_string(block_->rows) +
              " x " + std::to_string(block_->columns),
          weight.name);
    } else if (weight.extents.size() > 1 || entry.extents.size() > 1) {
      add("it is in several pieces", weight.name);
    }
    return scale->second;
  }

  const std::vector<RankFile>& files_;
  std::optional<BlockShape> block_;
  std::vector<Place> weights_;
  std::map<std::string, Place> scales_;
  std::map<std::string, std::vector<std::string>> problems_;  ///< names by the reason
};

StoredTensor stored(const std::vector<RankFile>& files, const Place& place) {
  const TensorEntry& entry = *place.entry;
  return {files[place.file].source, entry.extents.front(), entry.dtype, entry.shape};
}

}  // namespace

/// One row of scales as float32, and where it comes from.
struct DequantizedContent::Scales {
  bool foreseen = false;
  std::uint64_t row = kNone;
  std::vector<std::byte> stored{};
  std::vector<float> values{};
};

DequantizedContent::DequantizedContent(StoredTensor weight, StoredTensor scale, BlockShape block,
                                       bool beside)
    : weight_(std::move(weight)), scale_(std::move(scale)), block_(block), beside_(beside) {
  const auto last_two = [](const Shape& shape) {
    return std::pair(static_cast<std::uint64_t>(shape[shape.size() - 2]),
                     static_cast<std::uint64_t>(shape.back()));
  };
  std::tie(rows_, columns_) = last_two(weight_.shape);
  std::tie(scale_rows_, scale_columns_) = last_two(scale_.shape);
}

std::uint64_t DequantizedContent::scale_row(std::uint64_t row) const {
  return row / rows_ * scale_rows_ + row % rows_ / static_cast<std::uint64_t>(block_.rows);
}

void DequantizedContent::convert(std::uint64_t row, std::uint64_t begin, std::uint64_t end,
                                 const std::byte* weights, Scales& scales, std::byte* out) const {
  const std::uint64_t wanted = scale_row(row);
  if (scales.row != wanted) {
    const std::uint64_t bytes =
        scale_columns_ * static_cast<std::uint64_t>(element_size(scale_.dtype));
    scales.stored.resize(bytes);
    scales.values.resize(scale_columns_);
    read_part(*scale_.source,
              {scale_.place.offset() + wanted * bytes, scales.stored, scales.foreseen});
    if (scale_.dtype == DType::kFloat8E8M0) {
      std::transform(scales.stored.begin(), scales.stored.end(), scales.values.begin(), from_e8m0);
    } else {
      cast_elements(scale_.dtype, scales.stored.data(), DType::kFloat32,
                    reinterpret_cast<std::byte*>(scales.values.data()), scales.values.size());
    }
    scales.row = wanted;
  }
  const auto block = static_cast<std::uint64_t>(block_.columns);
  std::array<std::byte, kLane> some;
  std::array<std::byte, 2 * kLane> made;
  while (begin < end) {
    const std::uint64_t stop = std::min({end, (begin / block + 1) * block, begin + kLane});
    const float scale = scales.values[begin / block];
    const auto count = static_cast<std::size_t>(stop - begin);
    if (count == kLane) {
      scale_lane(weights, scale, out);
    } else {
      some.fill(std::byte());
      std::memcpy(some.data(), weights, count);
      scale_lane(some.data(), scale, made.data());
      std::memcpy(out, made.data(), 2 * count);
    }
    weights += count;
    out += 2 * count;
    begin = stop;
  }
}

void DequantizedContent::read(const ReadRequest& part) const {
  auto [offset, out, foreseen] = part;
  std::vector<std::byte> weights;
  std::vector<std::byte> edge;  // where an element is not wanted as a whole
  Scales scales{.foreseen = foreseen};
  std::uint64_t element = offset / 2;
  std::uint64_t skipped = offset % 2;
  while (!out.empty()) {
    const std::uint64_t wanted = (out.size() + skipped + 1) / 2;
    const std::uint64_t count = std::min(wanted, kElementsAtOnce);
    weights.resize(count);
    read_part(*weight_.source, {weight_.place.offset() + element, weights, foreseen});
    const std::size_t made = 2 * count;
    const bool fits = skipped == 0 && out.size() >= made;
    if (!fits) edge.resize(made);
    std::byte* to = fits ? out.data() : edge.data();
    for (std::uint64_t done = 0; done < count;) {
      const std::uint64_t row = (element + done) / columns_;
      const std::uint64_t begin = (element + done) % columns_;
      const std::uint64_t end = std::min(columns_, begin + count - done);
      convert(row, begin, end, weights.data() + done, scales, to + 2 * done);
      done += end - begin;
    }
    const std::size_t taken = std::min<std::size_t>(out.size(), made - skipped);
    if (!fits) std::memcpy(out.data(), edge.data() + skipped, taken);
    out = out.subspan(taken);
    element += count;
    skipped = 0;
  }
  if (beside_) scale_.source->check_unchanged();
}

void DequantizedContent::foresee(const ByteRange& range, Foresight when) const noexcept {
  if (range.empty()) return;
  try {
    const std::uint64_t begin = range.offset() / 2;
    const std::uint64_t end = (range.end() + 1) / 2;
    const std::array weights{
        ByteRange::between(weight_.place.offset() + begin, weight_.place.offset() + end)};
    weight_.source->foresee(weights, when);
    const std::uint64_t bytes =
        scale_columns_ * static_cast<std::uint64_t>(element_size(scale_.dtype));
    const std::array scales{
        ByteRange::between(scale_.place.offset() + scale_row(begin / columns_) * bytes,
                           scale_.place.offset() + (scale_row((end - 1) / columns_) + 1) * bytes)};
    scale_.source->foresee(scales, when);
  } catch (const std::exception&) {
    // A read of the range reports the error.
  }
}

void dequantize(std::vector<RankFile>& files, bool has_layouts, const std::filesystem::path& config,
                const SourceTreePtr& tree) {
  require_whole(files, has_layouts);
  const std::optional<BlockShape> block = read_block_shape(config, tree);
  Pairs pairs(files, block);
  if (pairs.empty()) {
    throw Error(ErrorKind::kUsage, "has no weights in 8-bit floats with scales")
        .in_file(files.front().path.parent_path().string())
        .hint("leave --dequantize out");
  }
  const Places scales = pairs.find(config);
  // The new indexes take the places of those that `scales` refers to.
  const std::vector<RankFile> before = files;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto appended = std::make_shared<AppendedSource>(before[i].source);
    std::vector<TensorEntry> entries;
    for (const TensorEntry& entry : before[i].index->entries()) {
      if (scales.contains(weight_of_scale(entry.name))) continue;
      TensorEntry& shown = entries.emplace_back(entry);
      const auto scale = scales.find(entry.name);
      if (scale == scales.end()) continue;
      shown.dtype = DType::kBFloat16;
      shown.content_bytes = static_cast<std::uint64_t>(
          content_size(shown.shape, shown.dtype, "the size of a tensor"));
      if (shown.content_bytes == 0) continue;
      const Place& place = scale->second;
      shown.extents.front() = appended->append(std::make_unique<const DequantizedContent>(
          stored(before, Place{i, &entry}), stored(before, place), *block, place.file != i));
    }
    files[i].index = std::make_shared<const FileIndex>(std::move(entries), IndexHints{},
                                                       BoxOffsets{}, before[i].index->refused());
    files[i].source = appended;
    files[i].unexamined = nullptr;
  }
}

}  // namespace reshardfs
