// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/error.h"

#include "view/hub_shards.h"

namespace reshardfs {

std::vector<OutputFile> merged_shards_view(const ViewContext& context) {
  if (context.whole == nullptr) return {};
  try {
    return hub_shards(context, "merged", {});
  } catch (const Error& error) {
    context.warnings.push_back(std::string("no merged/model-*.safetensors: ") + error.what());
    return {};
  }
}

}  // namespace reshardfs
