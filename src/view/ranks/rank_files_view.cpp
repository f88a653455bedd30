// SPDX-License-Identifier: Apache-2.0
/// rank_<r>/<prefix><r>.ckpt, .safetensors or .pt for every destination rank; rank_<r>/params/ if
/// asked.
#include <algorithm>

#include "base/process/parallel.h"
#include "conversion/completeness.h"
#include "view/files/ckpt_file.h"
#include "view/files/shown_words.h"
#include "view/files/torch_save_file.h"
#include "view/params/params_directory.h"
#include "view/view.h"

namespace reshardfs {
namespace {

std::string rank_directory(Rank rank) {
  return "rank_" + to_string(rank) + "/";
}

const char* extension_of(OutputFormat format) {
  switch (format) {
    case OutputFormat::kCkpt:
      return ".ckpt";
    case OutputFormat::kTorch:
      return ".pt";
    case OutputFormat::kSafetensors:
      break;
  }
  return ".safetensors";
}

/// @param common of safetensors files.
std::shared_ptr<const VirtualFile> file_of(
    const ViewContext& context, Rank rank, OutputFormat format,
    const std::shared_ptr<const SafetensorsFile::Common>& common) {
  const TargetTable& target = *context.target;
  switch (format) {
    case OutputFormat::kCkpt:
      return std::make_shared<CkptFile>(context.target, rank, context.options.append_crc,
                                        !context.target->is_transformed());
    case OutputFormat::kTorch:
      return std::make_shared<TorchSaveFile>(context.target, rank, arrays_of(target, rank),
                                             context.options.append_crc);
    case OutputFormat::kSafetensors:
      break;
  }
  return std::make_shared<SafetensorsFile>(context.target, rank, arrays_of(target, rank), common);
}

}  // namespace

std::vector<OutputFile> rank_files_view(const ViewContext& context) {
  require_complete(*context.target, context.ranks);
  const auto has = [&](OutputFormat format) {
    return std::find(context.formats.begin(), context.formats.end(), format) !=
           context.formats.end();
  };
  std::shared_ptr<const SafetensorsFile::Common> common;
  if (has(OutputFormat::kSafetensors)) {
    common = safetensors_common(context, *context.target, SafetensorsKind::kMindSpores,
                                context.options.safetensors_metadata);
    if (rank_files_hold_words(context)) {
      common = with_words(common, shown_words(context, {*context.target}).header);
    } else if (!context.target->is_transformed()) {
      common = with_words(common, words_of_types({*context.target}));
    }
  }
  if (has(OutputFormat::kCkpt)) context.tell_empty(*context.target, "rank_*/*.ckpt");
  if (has(OutputFormat::kTorch)) context.tell_left_out(*context.target, "rank_*/*.pt");
  const std::size_t formats = context.formats.size();
  std::vector<OutputFile> files(context.ranks.size() * formats);
  // Each works out its size, from all its parameters.
  parallel_for(files.size(), [&](std::size_t i) {
    const Rank rank = context.ranks[i / formats];
    const std::string stem = rank_directory(rank) + context.options.prefix + to_string(rank);
    const OutputFormat format = context.formats[i % formats];
    files[i] = {stem + extension_of(format), file_of(context, rank, format, common)};
  });
  return files;
}

std::vector<OutputFile> rank_params_view(const ViewContext& context) {
  std::vector<OutputFile> files;
  if (!context.options.rank_params) return files;
  for (const Rank rank : context.ranks) {
    add_params(context, context.target, rank, rank_directory(rank), files);
  }
  return files;
}

}  // namespace reshardfs
