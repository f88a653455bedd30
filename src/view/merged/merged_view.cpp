// SPDX-License-Identifier: Apache-2.0
/// merged/<prefix>merged.ckpt, .safetensors and .pt: the whole model in one file.
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "view/files/ckpt_file.h"
#include "view/files/shown_words.h"
#include "view/files/torch_save_file.h"
#include "view/merged/hub_shards.h"
#include "view/view.h"

namespace reshardfs {
namespace {

/// @param make the file's content. What one format cannot hold must not keep others from being
///     shown.
template <typename Make>
std::vector<OutputFile> merged_file(const ViewContext& context, ViewKind kind,
                                    const char* extension, Make&& make) {
  if (context.whole == nullptr) return {};
  const std::string path = "merged/" + context.options.prefix + "merged" + extension;
  try {
    return {{path, make()}};
  } catch (const Error& error) {
    context.leave_out(kind, path, error);
    return {};
  }
}

}  // namespace

std::vector<OutputFile> merged_ckpt_view(const ViewContext& context) {
  return merged_file(context, ViewKind::kMergedCkpt, ".ckpt", [&] {
    context.tell_empty(*context.whole, "merged/*.ckpt");
    return std::make_shared<CkptFile>(context.whole, kWholeRank, context.options.append_crc,
                                      !context.target->is_transformed());
  });
}

std::vector<OutputFile> merged_safetensors_view(const ViewContext& context) {
  return merged_file(context, ViewKind::kMergedSafetensors, ".safetensors", [&] {
    const auto common = safetensors_common(context, *context.whole, SafetensorsKind::kOwn,
                                           context.options.safetensors_metadata);
    return std::make_shared<SafetensorsFile>(
        context.whole, kWholeRank, arrays_of(*context.whole, kWholeRank),
        with_words(common, shown_words(context, {*context.whole}).header));
  });
}

std::vector<OutputFile> merged_torch_view(const ViewContext& context) {
  return merged_file(context, ViewKind::kMergedTorch, ".pt", [&] {
    std::vector<const TargetParameter*> arrays = arrays_of(*context.whole, kWholeRank);
    if (arrays.empty()) {
      throw Error(ErrorKind::kMissing, "no parameter that is shown is a tensor");
    }
    context.tell_left_out(*context.whole, "merged/*.pt");
    return std::make_shared<TorchSaveFile>(context.whole, kWholeRank, std::move(arrays),
                                           context.options.append_crc);
  });
}

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
