// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/error.h"

#include "view/merged/hub_shards.h"

namespace reshardfs {

std::vector<OutputFile> merged_shards_view(const ViewContext& context) {
  if (context.whole == nullptr) return {};
  try {
    std::vector<OutputFile> files = hub_shards(context, "merged", {});
    if (files.empty()) throw Error(ErrorKind::kMissing, "no parameter that is shown is a tensor");
    return files;
  } catch (const Error& error) {
    context.leave_out(ViewKind::kHub, "merged/model-*.safetensors", error);
    return {};
  }
}

}  // namespace reshardfs
