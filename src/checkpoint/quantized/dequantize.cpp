// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantized/dequantize.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/content_size.h"
#include "base/text/text.h"
#include "checkpoint/appended_source.h"
#include "checkpoint/quantized/block_scales.h"
#include "checkpoint/quantized/dequantized_content.h"

namespace reshardfs {
namespace {

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
