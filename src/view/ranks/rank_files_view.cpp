// SPDX-License-Identifier: Apache-2.0
/// rank_<r>/<prefix><r>.ckpt or .safetensors for every destination rank; rank_<r>/params/ if asked.
#include <algorithm>

#include "base/process/parallel.h"
#include "conversion/completeness.h"
#include "view/files/ckpt_file.h"
#include "view/params/params_directory.h"
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
  const auto common =
      any_safetensors ? safetensors_common(context, *context.target, SafetensorsKind::kMindSpores,
                                           context.options.safetensors_metadata)
                      : nullptr;
  const std::size_t formats = context.formats.size();
  std::vector<OutputFile> files(context.ranks.size() * formats);
  // Each works out its size, from all its parameters.
  parallel_for(files.size(), [&](std::size_t i) {
    const Rank rank = context.ranks[i / formats];
    const std::string stem = rank_directory(rank) + context.options.prefix + to_string(rank);
    if (context.formats[i % formats] == OutputFormat::kCkpt) {
      files[i] = {stem + ".ckpt",
                  std::make_shared<CkptFile>(context.target, rank, context.options.append_crc)};
    } else {
      files[i] = {stem + ".safetensors",
                  std::make_shared<SafetensorsFile>(context.target, rank,
                                                    arrays_of(*context.target, rank), common)};
    }
  });
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
