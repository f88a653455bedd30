// SPDX-License-Identifier: Apache-2.0
/// How a model's configuration says that its weights are quantized, for each module.
/// https://github.com/vllm-project/compressed-tensors (config_groups, targets, ignore)
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json_value.h"
#include "checkpoint/quantized/block_scales.h"
#include "storage/source_tree.h"

namespace reshardfs {

/// What a configuration file says of it; `file` is empty if no file says anything.
struct QuantizationStatement {
  std::string file;
  std::string method;  ///< quant_method
  JsonDocument document{};

  /// The object that states it; null if none does.
  JsonValue value() const;
};

/// From config.json, at the top or in a part of it, or else from hf_quant_config.json beside it.
/// @param config need not be there. Without quant_method, one that states blocks is "fp8".
/// @throws Error kBadInput if it is not valid, or states two that differ; what reading throws.
QuantizationStatement read_quantization(const std::filesystem::path& config,
                                        const SourceTreePtr& tree);

/// The text of a member of an object; empty if there is none.
std::string stated_text(const JsonValue& object, std::string_view key);

/// One of config_groups of compressed-tensors: the weights of the modules that it names.
struct WeightGroup {
  enum class Strategy : std::uint8_t { kTensor, kChannel, kGroup, kBlock, kTensorGroup };

  std::string name;
  std::vector<std::string> targets;
  bool is_float = false;
  std::int64_t bits = 0;
  Strategy strategy = Strategy::kTensor;
  std::int64_t group = 0;
  BlockShape block{};
  bool is_symmetric = true;

  bool is_same_way(const WeightGroup& other) const;
};

/// Which group counts for a module: one whose target is the module, else one with an expression
/// that matches from its beginning, else one for all modules ("Linear").
class WeightGroups {
 public:
  /// @throws Error kUnsupported, kBadInput for what is stated of weights and is not known.
  explicit WeightGroups(const QuantizationStatement& statement);
  ~WeightGroups();
  WeightGroups(const WeightGroups&) = delete;
  WeightGroups& operator=(const WeightGroups&) = delete;

  bool ignores(std::string_view module) const;
  /// nullptr: none. @throws Error kUnsupported if two differ.
  const WeightGroup* group_of(std::string_view module) const;

 private:
  struct Target;

  std::string file_;
  std::vector<WeightGroup> groups_;
  std::vector<std::pair<std::unique_ptr<Target>, const WeightGroup*>> targets_;
  std::vector<std::unique_ptr<Target>> ignored_;
};

}  // namespace reshardfs
