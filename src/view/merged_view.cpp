// SPDX-License-Identifier: Apache-2.0
/// merged/<prefix>merged.ckpt: the whole model in one file.
#include "reshardfs/error.h"

#include "view/ckpt_file.h"
#include "view/completeness.h"
#include "view/view.h"

namespace reshardfs {

std::vector<OutputFile> merged_view(const ViewContext& context) {
  if (context.whole == nullptr) return {};
  // A node may hold only the source ranks that its own destination ranks need: then there is no
  // whole model to show, and nothing wrong with that.
  try {
    require_complete(*context.whole, {0});
  } catch (const Error& error) {
    context.warnings.push_back(std::string("no merged file: ") + error.what());
    return {};
  }
  return {{"merged/" + context.options.prefix + "merged.ckpt",
           std::make_shared<CkptFile>(context.whole, 0)}};
}

}  // namespace reshardfs
