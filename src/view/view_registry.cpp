// SPDX-License-Identifier: Apache-2.0
#include "base/text/text.h"
#include "conversion/wanted_views.h"
#include "view/view.h"

namespace reshardfs {

void ViewContext::leave_out(ViewKind kind, const std::string& path, const Error& error) const {
  if (is_named(kind, options)) throw error;
  warnings.push_back("no " + path + ": " + error.what());
  absent.push_back({path, error.what()});
}

void ViewContext::tell_left_out(const TargetTable& table, const std::string& where) const {
  std::vector<std::string> names;
  for (const TargetParameter& parameter : table.parameters()) {
    if (!is_array(parameter.dtype)) names.push_back(parameter.name);
  }
  if (names.empty()) return;
  warnings.push_back("left out of " + where + ", which has tensors alone: " + name_list(names));
}

void ViewContext::tell_empty(const TargetTable& table, const std::string& where) const {
  const auto is_empty = [](const TargetParameter& parameter) {
    if (!is_array(parameter.dtype)) return false;
    if (parameter.grid) return element_count(parameter.grid->full_shape()) == 0;
    return parameter.source->holders.front().entry->content_bytes == 0;
  };
  std::vector<std::string> names;
  for (const TargetParameter& parameter : table.parameters()) {
    if (is_empty(parameter)) names.push_back(parameter.name);
  }
  if (names.empty()) return;
  warnings.push_back("left out of " + where +
                     ", which cannot hold tensors without elements: " + name_list(names));
}

const std::vector<View>& view_registry() {
  static const std::vector<View> views{
      {ViewKind::kRanks, rank_files_view},
      {ViewKind::kRanks, rank_params_view},
      {ViewKind::kMergedCkpt, merged_ckpt_view},
      {ViewKind::kMergedSafetensors, merged_safetensors_view},
      {ViewKind::kMergedTorch, merged_torch_view},
      {ViewKind::kHub, merged_shards_view},
      {ViewKind::kHuggingFace, hugging_face_view},
      {ViewKind::kParams, params_view},
      {ViewKind::kUnified, unified_view},
      {ViewKind::kIteration, iteration_view},
      {ViewKind::kDcp, dcp_view},
      {ViewKind::kDcpHuggingFace, dcp_hugging_face_view},
      {ViewKind::kMegatron, megatron_view},
      {ViewKind::kHyper, hyper_view},
      {ViewKind::kVllm, vllm_view},
      {ViewKind::kStrategy, strategy_view},
      {std::nullopt, control_view},
  };
  return views;
}

}  // namespace reshardfs
