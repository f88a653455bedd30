// SPDX-License-Identifier: Apache-2.0
/// rank_<r>/<prefix><r>.ckpt or .safetensors for every destination rank; rank_<r>/params/ if asked.
#include <algorithm>

#include "view/ckpt_file.h"
#include "view/completeness.h"
#include "view/params_directory.h"
#include "view/view.h"

namespace reshardfs {
namespace {

std::string rank_directory(Rank rank) {
  return "rank_" + to_string(rank) + "/";
}

}  // namespace

std::vector<OutputFile> rank_files_view(const ViewContext& context) {
  require_complete(*context.target, context.ranks);
  const bool any_safetensors = std::find(context.formats.begin(), context.formats.end(),
                                         OutputFormat::kSafetensors) != context.formats.end();
  const auto common = any_safetensors ? safetensors_common(context, *context.target,
                                                           context.options.safetensors_metadata)
                                      : nullptr;
  std::vector<OutputFile> files;
  for (const Rank rank : context.ranks) {
    const std::string stem = rank_directory(rank) + context.options.prefix + to_string(rank);
    for (const OutputFormat format : context.formats) {
      if (format == OutputFormat::kCkpt) {
        files.push_back({stem + ".ckpt", std::make_shared<CkptFile>(context.target, rank,
                                                                    context.options.append_crc)});
      } else {
        files.push_back({stem + ".safetensors",
                         std::make_shared<SafetensorsFile>(
                             context.target, rank, arrays_of(*context.target, rank), common)});
      }
    }
  }
  return files;
}

std::vector<OutputFile> rank_params_view(const ViewContext& context) {
  std::vector<OutputFile> files;
  if (!context.options.rank_params) return files;
  for (const Rank rank : context.ranks) {
    add_params(context.target, rank, rank_directory(rank), files, context.warnings);
  }
  return files;
}

}  // namespace reshardfs
