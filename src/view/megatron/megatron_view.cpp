// SPDX-License-Identifier: Apache-2.0
/// megatron/: the weights as a torch_dist checkpoint from which a run of Megatron-Core starts.
/// Beside what dcp/ has, Megatron asks for the tracker, metadata.json and the state that is no
/// tensor (NVIDIA/Megatron-LM megatron/training/checkpointing.py and
/// megatron/core/dist_checkpointing/{core,serialization}.py).
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "format/torch/pickle_writer.h"
#include "format/torch/torch_zip_writer.h"
#include "modelmap/layer_pattern.h"
#include "plan/target/target_table.h"
#include "view/dcp/box_plan.h"
#include "view/dcp/dcp_files.h"
#include "view/files/text_file.h"
#include "view/megatron/core_names.h"
#include "view/shown_side.h"
#include "view/view.h"
#include "view/weights.h"

namespace reshardfs {
namespace {

/// Layers times experts. The largest models have some ten thousand.
constexpr std::int64_t kMostFront = 1'000'000;

/// What DCP makes of an object is torch.save of a list with the object of each shard
/// (megatron/core/dist_checkpointing/strategies/torch.py, mcore_to_pyt_state_dict).
std::string none_in_a_list() {
  PickleWriter out;
  out.empty_list();
  out.mark();
  out.none();
  out.append_all();
  return torch_archive(std::move(out).finish());
}

/// "....self_attention.core_attention" of "....self_attention.linear_qkv"; empty: it is in none.
std::string core_attention_of(std::string_view module) {
  constexpr std::string_view kAttention = ".self_attention.";
  const std::size_t found = module.find(kAttention);
  if (found == std::string_view::npos) return {};
  return std::string(module.substr(0, found)) + std::string(kAttention) + "core_attention";
}

/// The axes in front of a module's tensors, by module.
class Modules {
 public:
  /// @param has_attention whether each core attention is a module with a state, with or without
  /// tensors.
  explicit Modules(bool has_attention) : has_attention_(has_attention) {}

  void add(const TargetParameter& weight) {
    const CoreName name = parse_core_name(weight.name);
    const Shape& shape = weight.grid->full_shape();
    const std::size_t axes = name.leading_axes();
    if (shape.size() < axes || element_count(shape) == 0) {
      throw Error(ErrorKind::kBadInput, "has the shape " + to_string(shape) +
                                            ", which no weight of Megatron-Core has: the first "
                                            "dimensions must be the layers and experts of its name")
          .for_parameter(weight.name);
    }
    const Shape front(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axes));
    if (element_count(front) > kMostFront) {
      throw Error(ErrorKind::kUnsupported, "is of " + std::to_string(element_count(front)) +
                                               " layers and experts; at most " +
                                               std::to_string(kMostFront) + " are supported")
          .for_parameter(weight.name);
    }
    if (name.layers == CoreName::Layers::kStacked) require_layers(front.front(), weight);
    if (name.module.empty()) return;
    const std::string core = core_attention_of(name.module);
    if (has_attention_ && !core.empty()) front_.emplace(core, front);
    if (!name.has_state) return;
    const auto [known, is_new] = front_.emplace(name.module, front);
    if (known->second != front) {
      throw Error(ErrorKind::kBadInput, "has the shape " + to_string(shape) +
                                            ", but another tensor of its module has " +
                                            to_string(known->second) + " in front")
          .for_parameter(weight.name);
    }
  }
  /// One that needs no weight.
  void add(const std::string& module) { front_.emplace(module, Shape()); }

  const std::map<std::string, Shape>& all() const noexcept { return front_; }

 private:
  void require_layers(std::int64_t layers, const TargetParameter& weight) {
    if (layers_of_ == nullptr) {
      layers_ = layers;
      layers_of_ = &weight;
    }
    if (layers == layers_) return;
    throw Error(ErrorKind::kBadInput, "has " + std::to_string(layers) + " layers, but '" +
                                          printable(layers_of_->name) + "' has " +
                                          std::to_string(layers_))
        .for_parameter(weight.name);
  }

  bool has_attention_;
  std::map<std::string, Shape> front_;
  std::int64_t layers_ = 0;
  const TargetParameter* layers_of_ = nullptr;
};

std::string joined(const Shape& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    text += (text.empty() ? "" : ".") + std::to_string(number);
  }
  return text;
}

/// As megatron/core/dist_checkpointing/mapping.py, ShardedObject.unique_key.
std::string key_of(const std::string& module, const Shape& offset, const Shape& of) {
  return module + "._extra_state/shard_" + joined(offset) + "_" + joined(of);
}

/// The extra states that modules of Transformer Engine keep beside their weights: an object for
/// each layer and each expert. Megatron-Core asks for those of its modules, and by default loads
/// nothing if one is missing (megatron/core/dist_checkpointing/validation.py,
/// assume_ok_unexpected). They hold scales of 8-bit training, which a model that starts has none
/// of: each is the list [None], at which Transformer Engine does nothing in all its releases
/// (transformer_engine/pytorch/module/base.py and ops/op.py, set_extra_state).
///
/// All modules that have a weight get one here, and the core of each attention, for which
/// Megatron-Core before 0.15 asks. By default it ignores those that it does not ask for.
/// @param weights with names of Megatron-Core.
/// @throws Error kBadInput if weights disagree about the number of layers or of experts, or have
///         too few dimensions or no elements; kUnsupported for more than a million layers and
///         experts.
std::vector<PassedObject> extra_states(const std::vector<const TargetParameter*>& weights,
                                       bool has_attention, bool is_hybrid) {
  Modules modules(has_attention);
  for (const TargetParameter* weight : weights) modules.add(*weight);
  // That of the output layer, a HybridModel asks for.
  if (is_hybrid) modules.add("output_layer");
  const auto none = std::make_shared<const std::string>(none_in_a_list());
  std::vector<PassedObject> objects;
  for (const auto& [module, front] : modules.all()) {
    const Shape of = front.empty() ? Shape{1} : front;
    Shape offset(of.size(), 0);
    const std::int64_t count = element_count(of);
    for (std::int64_t i = 0; i < count; ++i) {
      objects.push_back({key_of(module, offset, of), nullptr, {}, none});
      for (std::size_t d = of.size(); d-- > 0;) {
        if (++offset[d] < of[d]) break;
        offset[d] = 0;
      }
    }
  }
  return objects;
}

constexpr std::string_view kMegatronDirectory = "megatron/";
/// Of the step that belongs to no training: Megatron then loads weights alone.
constexpr std::string_view kRelease = "megatron/release/";
/// Of the maps that state names and forms in torch_dist checkpoints. Ranks have other rows.
constexpr std::string_view kHybridSide = "Megatron-Core torch_dist hybrid";
constexpr std::array<std::string_view, 2> kCoreSides{"Megatron-Core torch_dist", kHybridSide};

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
                    "' is of all: a checkpoint of Megatron-Core has only one of these forms")
        .for_parameter(numbered->name);
  }
  if (stacked == nullptr && numbered == nullptr) return std::nullopt;
  return numbered != nullptr;
}

/// As the map states it, which all of Megatron-Core's torch_dist maps do.
bool has_attention_states(const ShownModel& model) {
  const auto found = model.settings.find("attention_states");
  return found == model.settings.end() || found->second != 0;
}

/// What Megatron-LM compares of the training's arguments before it loads weights. The pattern tells
/// it that they are those of a HybridModel: without it, it asks for the names of a GPTModel
/// (megatron/training/checkpointing.py, _maybe_setup_gpt_to_hybrid_load, check_checkpoint_args).
struct HybridArgs {
  std::string pattern{};
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::optional<std::int64_t> heads{};  ///< if the map knows them
};

/// @throws Error kBadInput if the names do not tell the pattern.
HybridArgs hybrid_args(const ShownModel& model,
                       const std::vector<const TargetParameter*>& weights) {
  constexpr std::string_view kNorm = "decoder.final_norm.weight";
  HybridArgs args;
  std::vector<modelmap::LayerTensor> names;
  for (const TargetParameter* weight : weights) {
    names.push_back({weight->name, {}});
    const Shape& shape = weight->grid->full_shape();
    if (weight->name == kNorm && shape.size() == 1) args.hidden = shape[0];
  }
  const auto named = modelmap::layers_of_names(names);
  const bool is_told = named && named->is_hybrid && named->text().find('?') == std::string::npos;
  if (!is_told || args.hidden == 0) {
    throw Error(ErrorKind::kBadInput,
                "the names of the weights do not show the layers of a HybridModel, which megatron/ "
                "must state")
        .hint("show all weights: leave --include and --exclude out");
  }
  args.pattern = named->text();
  args.layers = static_cast<std::int64_t>(named->decoder.size());
  const auto heads = model.settings.find("num_attention_heads");
  if (heads != model.settings.end()) args.heads = heads->second;
  return args;
}

void write_args(const HybridArgs& args, PickleWriter& out) {
  out.text("args");
  out.global({"argparse", "Namespace"});
  out.empty_tuple();
  out.call();
  out.empty_dict();
  out.mark();
  out.text(modelmap::kLayerPattern);
  out.text(args.pattern);
  out.text("num_layers");
  out.integer(args.layers);
  out.text("hidden_size");
  out.integer(args.hidden);
  if (args.heads) {
    out.text("num_attention_heads");
    out.integer(*args.heads);
  }
  out.set_all();
  out.build();
}

/// The state that is no tensor: what generate_state_dict() of Megatron has without arguments,
/// optimizer and generators of random numbers. It asks the model for tensors in the form that
/// content_metadata states.
std::string common_state(const std::optional<bool>& numbered,
                         const std::optional<HybridArgs>& hybrid) {
  PickleWriter out;
  out.empty_dict();
  out.mark();
  out.text("checkpoint_version");
  out.real(3.0);
  out.text("iteration");
  out.integer(0);
  if (hybrid) write_args(*hybrid, out);
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
  std::optional<HybridArgs> hybrid;
  if (context.model.side == kHybridSide) hybrid = hybrid_args(context.model, weights);
  std::vector<PassedObject> objects =
      extra_states(weights, has_attention_states(context.model), hybrid.has_value());
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
  files.push_back({release + "common.pt", text_file(common_state(numbered, hybrid))});
  files.push_back(
      {release + ".metadata", std::make_shared<MadeFile>([set] { return set->table(); })});
  files.push_back({release + "metadata.json", text_file(std::string(kBackends))});
  files.push_back({std::string(kMegatronDirectory) + "latest_checkpointed_iteration.txt",
                   text_file("release")});
  return files;
}

}  // namespace reshardfs
