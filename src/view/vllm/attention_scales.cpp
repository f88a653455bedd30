// SPDX-License-Identifier: Apache-2.0
#include "view/vllm/attention_scales.h"

#include <bit>
#include <cstddef>
#include <deque>
#include <string_view>

#include "format/safetensors/safetensors_writer.h"

namespace reshardfs {

std::string attention_scales(const std::vector<const TargetParameter*>& weights,
                             std::uint64_t align) {
  constexpr std::string_view kFused = ".qkv_proj.weight";
  std::deque<std::string> names;
  std::vector<safetensors::HeaderTensor> scales;
  for (const TargetParameter* weight : weights) {
    if (!weight->name.ends_with(kFused)) continue;
    const std::string attention = weight->name.substr(0, weight->name.size() - kFused.size());
    for (const std::string_view scale : {"_k_scale", "_prob_scale", "_q_scale", "_v_scale"}) {
      names.push_back(attention + ".attn." + std::string(scale));
      scales.push_back({names.back(), DType::kFloat32, {}});
    }
  }
  if (scales.empty()) return {};
  std::string file = safetensors::make_header(scales, {{"format", "pt"}}, align).bytes;
  const auto one = std::bit_cast<std::uint32_t>(1.0F);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    for (std::size_t byte = 0; byte < sizeof(one); ++byte) {
      file += static_cast<char>(one >> (8 * byte) & 0xff);
    }
  }
  return file;
}

}  // namespace reshardfs
