// SPDX-License-Identifier: Apache-2.0
/// dcp/: the destination as torch.distributed.checkpoint would have saved it: .metadata and a file
/// of archives for each rank, or so many files as are asked for.
#include <memory>
#include <utility>

#include "reshardfs/error.h"

#include "view/dcp/box_plan.h"
#include "view/dcp/dcp_files.h"
#include "view/dcp/passed_objects.h"
#include "view/files/text_file.h"
#include "view/view.h"

namespace reshardfs {
namespace {

constexpr const char* kDirectory = "dcp/";

}  // namespace

std::vector<OutputFile> dcp_view(const ViewContext& context) {
  std::vector<PassedObject> objects;
  std::unordered_map<std::string, DcpPath> paths;
  if (const auto saved = saved_objects(context)) {
    // PyTorch cannot load another framework's.
    if (saved->of_torch) objects = passed_objects(context, *saved);
    paths = known_paths(context, *saved);
  }
  BoxPlan plan = box_plan(context, {.in_blocks = true});
  if (plan.parameters().empty() && objects.empty()) {
    throw Error(ErrorKind::kMissing, "no parameter that is shown is a tensor, which dcp/ needs");
  }
  const auto set = std::make_shared<const DcpFiles>(std::move(plan), std::move(objects),
                                                    std::move(paths), context.options.dcp_release);
  std::vector<OutputFile> files;
  for (const std::size_t number : shown_files(context, set->plan(), kDirectory)) {
    if (set->size(number) == 0) continue;
    files.push_back({kDirectory + DcpFiles::name(number), std::make_shared<DcpFile>(set, number)});
  }
  // Last, as torch writes it.
  files.push_back({std::string(kDirectory) + ".metadata",
                   std::make_shared<MadeFile>([set] { return set->table(); })});
  return files;
}

}  // namespace reshardfs
