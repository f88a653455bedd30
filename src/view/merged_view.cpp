// SPDX-License-Identifier: Apache-2.0
/// merged/<prefix>merged.ckpt and .safetensors: the whole model in one file.
#include "reshardfs/error.h"

#include "view/ckpt_file.h"
#include "view/view.h"

namespace reshardfs {

std::vector<OutputFile> merged_view(const ViewContext& context) {
  if (context.whole == nullptr) return {};
  const std::string stem = "merged/" + context.options.prefix + "merged";
  std::vector<OutputFile> files;
  // What one format cannot hold must not keep the other from being shown.
  const auto add = [&](const std::string& path, const auto& make) {
    try {
      files.push_back({path, make()});
    } catch (const Error& error) {
      context.warnings.push_back("no " + path + ": " + error.what());
    }
  };
  add(stem + ".ckpt", [&] {
    return std::make_shared<CkptFile>(context.whole, kWholeRank, context.options.append_crc);
  });
  add(stem + ".safetensors", [&] {
    return std::make_shared<SafetensorsFile>(
        context.whole, kWholeRank, arrays_of(*context.whole, kWholeRank),
        safetensors_common(context, *context.whole, context.options.safetensors_metadata));
  });
  return files;
}

}  // namespace reshardfs
