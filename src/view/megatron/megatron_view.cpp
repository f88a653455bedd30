// SPDX-License-Identifier: Apache-2.0
/// megatron/: the weights as a torch_dist checkpoint from which a run of Megatron-Core starts.
/// Beside what dcp/ has, Megatron asks for the tracker, metadata.json and the state that is no
/// tensor (NVIDIA/Megatron-LM megatron/training/checkpointing.py and
/// megatron/core/dist_checkpointing/{core,serialization}.py).
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "format/torch/pickle_writer.h"
#include "format/torch/torch_zip_writer.h"
#include "view/dcp/dcp_files.h"
#include "view/dcp/dcp_plan.h"
#include "view/files/text_file.h"
#include "view/megatron/core_names.h"
#include "view/megatron/extra_states.h"
#include "view/shown_side.h"
#include "view/view.h"
#include "view/weights.h"

namespace reshardfs {
namespace {

constexpr std::string_view kMegatronDirectory = "megatron/";
/// Of the step that belongs to no training: Megatron then loads weights alone.
constexpr std::string_view kRelease = "megatron/release/";
/// Of the maps that state names and forms in torch_dist checkpoints. Ranks have other rows.
constexpr std::array<std::string_view, 1> kCoreSides{"Megatron-Core torch_dist"};

std::vector<const TargetParameter*> weights_of(const ViewContext& context,
                                               const TakesParameter& takes) {
  std::vector<const TargetParameter*> weights;
  for (const TargetParameter& parameter : context.target->parameters()) {
    if (!is_array(parameter.dtype) || parameter.grid == nullptr || !takes(parameter)) continue;
    weights.push_back(&parameter);
  }
  return weights;
}

/// Whether the layers have numbers; nothing if there are no layers.
/// @throws Error kBadInput for both forms at once, of which Megatron-Core loads one.
std::optional<bool> numbered_layers(const std::vector<const TargetParameter*>& weights) {
  const TargetParameter* stacked = nullptr;
  const TargetParameter* numbered = nullptr;
  for (const TargetParameter* weight : weights) {
    const CoreName::Layers layers = parse_core_name(weight->name).layers;
    if (layers == CoreName::Layers::kStacked) stacked = weight;
    if (layers == CoreName::Layers::kNumbered) numbered = weight;
  }
  if (stacked != nullptr && numbered != nullptr) {
    throw Error(ErrorKind::kBadInput,
                "is of one layer, but '" + printable(stacked->name) +
                    "' is of all: Megatron-Core has one of the two forms in a checkpoint")
        .for_parameter(numbered->name);
  }
  if (stacked == nullptr && numbered == nullptr) return std::nullopt;
  return numbered != nullptr;
}

/// The state that is no tensor: what generate_state_dict() of Megatron has without arguments,
/// optimizer and generators of random numbers. It asks the model for tensors in the form that
/// content_metadata states.
std::string common_state(const std::optional<bool>& numbered) {
  PickleWriter out;
  out.empty_dict();
  out.mark();
  out.text("checkpoint_version");
  out.real(3.0);
  out.text("iteration");
  out.integer(0);
  if (numbered) {
    out.text("content_metadata");
    out.empty_dict();
    out.mark();
    out.text("non_homogeneous_layers");
    out.boolean(*numbered);
    out.text("singleton_local_shards");
    out.boolean(false);
    out.set_all();
  }
  out.set_all();
  return torch_archive(std::move(out).finish());
}

/// With the keys of common.pt, which newer releases ignore and older ones need.
constexpr std::string_view kBackends =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
    R"("common_backend": "torch", "common_backend_version": 1})";

std::shared_ptr<const VirtualFile> text_file(std::string text) {
  return std::make_shared<TextFile>(SharedText(std::move(text)));
}

}  // namespace

std::vector<OutputFile> megatron_view(const ViewContext& context) {
  require_shown_side(context, "megatron", kCoreSides);
  // As it starts a training, it does not continue one.
  const TakesParameter takes = weights_alone(context);
  const std::vector<const TargetParameter*> weights = weights_of(context, takes);
  const std::optional<bool> numbered = numbered_layers(weights);
  std::vector<PassedObject> objects = extra_states(weights);
  // Megatron reads each layer and each expert by itself, and PyTorch an archive as a whole.
  const BoxScope scope{takes, [](const TargetParameter& parameter) {
                         return parse_core_name(parameter.name).leading_axes();
                       }};
  BoxPlan plan = box_plan(context, scope);
  if (plan.parameters().empty()) {
    throw Error(ErrorKind::kMissing, "no tensor that is shown is a weight, which megatron/ needs");
  }
  const auto set = std::make_shared<const DcpFiles>(std::move(plan), std::move(objects),
                                                    std::unordered_map<std::string, DcpPath>(),
                                                    TorchRelease::k2);
  const std::string release(kRelease);
  std::vector<OutputFile> files;
  for (const std::size_t number :
       shown_files(context, set->plan(), std::string(kMegatronDirectory))) {
    if (set->size(number) == 0) continue;
    files.push_back({release + DcpFiles::name(number), std::make_shared<DcpFile>(set, number)});
  }
  // In the order in which Megatron writes them.
  files.push_back({release + "common.pt", text_file(common_state(numbered))});
  files.push_back(
      {release + ".metadata", std::make_shared<MadeFile>([set] { return set->table(); })});
  files.push_back({release + "metadata.json", text_file(std::string(kBackends))});
  files.push_back({std::string(kMegatronDirectory) + "latest_checkpointed_iteration.txt",
                   text_file("release")});
  return files;
}

}  // namespace reshardfs
