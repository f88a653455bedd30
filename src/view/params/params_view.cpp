// SPDX-License-Identifier: Apache-2.0
/// merged/params/<name>.npy: the whole model, one NumPy file for each array.
#include "view/params/params_directory.h"
#include "view/view.h"

namespace reshardfs {

std::vector<OutputFile> params_view(const ViewContext& context) {
  std::vector<OutputFile> files;
  if (context.whole != nullptr) add_params(context, context.whole, kWholeRank, "merged/", files);
  return files;
}

}  // namespace reshardfs
