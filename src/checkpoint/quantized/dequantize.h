// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/appended_source.h"
#include "checkpoint/quantized/model_parts.h"
#include "checkpoint/ranks/rank_file.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// Replaces quantized weights, and what they are scaled by, by weights in BFloat16, which are
/// computed when they are read. Scales of activations and caches go with them. Other tensors stay
/// as they are.
/// @param files whose indexes are read; all of rank 0, with whole tensors.
/// @param has_layouts whether the set states layouts, and so may have slices.
/// @param config the config.json that states how weights are quantized; it need not be there.
/// @throws Error kUsage if the files are those of several ranks or parts of tensors, or nothing is
///         quantized; kUnsupported for methods that are not known, and with the names of all
///         tensors that do not fit theirs; kBadInput for config.json.
void dequantize(std::vector<RankFile>& files, bool has_layouts, const std::filesystem::path& config,
                const SourceTreePtr& tree);

/// What weights become.
class WeightForm {
 public:
  WeightForm() = default;
  WeightForm(const WeightForm&) = delete;
  WeightForm& operator=(const WeightForm&) = delete;
  virtual ~WeightForm() = default;

  /// That asks for it.
  virtual std::string_view option() const = 0;
  /// Refuses weights that cannot become it.
  virtual void check(ModelParts& /*parts*/) {}
  /// Adds the tensors that stand in the place of a weight's codes.
  /// @param file behind which they may be computed.
  virtual void show(const TensorEntry& codes, const ModelParts::Shown& shown, AppendedSource& file,
                    std::vector<TensorEntry>& out) = 0;
};

/// Replaces quantized weights by another form: see dequantize().
void show_weights(std::vector<RankFile>& files, bool has_layouts,
                  const std::filesystem::path& config, const SourceTreePtr& tree, WeightForm& form);

/// What dequantize() would show.
struct QuantizedModel {
  std::string file{};  ///< the one that states it; empty: none does
  std::vector<ModelParts::Shown> weights{};
  /// Tensors that do not fit what is stated, by the reason. If there are any, dequantize() throws.
  std::map<std::string, std::vector<std::string>> refused{};
  std::set<std::string> forms{};  ///< the reasons of what is not known, but not wrong
};

/// @param files, config, tree as for dequantize().
/// @return nothing if there are slices, or nothing is quantized
/// @throws Error as dequantize() of what is stated
QuantizedModel quantized_model(std::span<const RankFile> files, const std::filesystem::path& config,
                               const SourceTreePtr& tree);

}  // namespace reshardfs
