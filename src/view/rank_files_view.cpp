// SPDX-License-Identifier: Apache-2.0
/// rank_<r>/<prefix><r>.ckpt for every destination rank.
#include "view/ckpt_file.h"
#include "view/completeness.h"
#include "view/view.h"

namespace reshardfs {

std::vector<OutputFile> rank_files_view(const ViewContext& context) {
  require_complete(*context.target, context.ranks);
  std::vector<OutputFile> files;
  for (const std::int64_t rank : context.ranks) {
    const std::string number = std::to_string(rank);
    std::string path = "rank_" + number + "/";
    path += context.options.prefix;
    path += number + ".ckpt";
    files.push_back({std::move(path), std::make_shared<CkptFile>(context.target, rank)});
  }
  return files;
}

}  // namespace reshardfs
