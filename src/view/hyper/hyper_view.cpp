// SPDX-License-Identifier: Apache-2.0
/// hyper/: a directory of hyper-parallel's Trainer, from which a run starts or goes on. The Trainer
/// cuts whole tensors for any number of devices itself. It asks for weights below "model", as
/// Hugging Face's modules call them, and for states below "optimizer". Source:
/// mindspore-ai/hyper-parallel hyper_parallel/.../components/checkpoint/dcp_checkpointer.py,
/// optimizer.py, mixed_precision_optimizer.py.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/text.h"
#include "conversion/auto_map.h"
#include "conversion/installed_maps.h"
#include "view/files/text_file.h"
#include "view/hf/model_files.h"
#include "view/hyper/trainer_content.h"
#include "view/hyper/trainer_files.h"
#include "view/hyper/training_progress.h"
#include "view/view.h"
#include "view/weights.h"

namespace reshardfs {
namespace {

constexpr const char* kTrainerDirectory = "hyper/";

/// The Trainer's models ask for Hugging Face's names; others may be those of a model of one's own.
void warn_of_names(const ViewContext& context) {
  const std::string& side = context.model.side;
  if (side == kHuggingFaceSide) return;
  if (!side.empty()) {
    context.warnings.push_back("hyper/ has the names of " + printable(side) +
                               ", which models of Hugging Face do not have");
    return;
  }
  const TakesParameter is_weight = weights_alone(context);
  std::vector<std::string> names;
  for (const TargetParameter& parameter : context.whole->parameters()) {
    if (is_array(parameter.dtype) && is_weight(parameter)) names.push_back(parameter.name);
  }
  const std::string maps = hugging_face_maps(names, context.model.state_prefixes);
  if (maps.empty()) return;
  context.warnings.push_back(
      "hyper/ has the names of the source, which models of Hugging Face do not have: give " + maps);
}

}  // namespace

std::vector<OutputFile> hyper_view(const ViewContext& context) {
  if (context.whole == nullptr) return {};
  require_model(*context.whole, kTrainerDirectory);
  const std::optional<std::int64_t> step = training_step(context);
  const auto set = std::make_shared<const TrainerFiles>(
      context.whole, trainer_content(context, step), context.options.shard_bytes,
      safetensors_common(context, SafetensorsKind::kOwn, "pt"));
  warn_of_names(context);
  // An unknown step is 0, which no run has saved.
  const std::string number = std::to_string(step ? *step : 0);
  std::vector<OutputFile> files =
      TrainerFiles::all(set, std::string(kTrainerDirectory) + "global_step_" + number + "/");
  files.push_back({std::string(kTrainerDirectory) + "latest_checkpoint_iteration.txt",
                   std::make_shared<TextFile>(number + "\n")});
  return files;
}

}  // namespace reshardfs
