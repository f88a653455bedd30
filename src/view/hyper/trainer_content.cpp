// SPDX-License-Identifier: Apache-2.0
#include "view/hyper/trainer_content.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/cast.h"
#include "base/text/state_names.h"
#include "base/text/text.h"
#include "checkpoint/dcp/saved_objects.h"
#include "checkpoint/set_format.h"
#include "conversion/option_words.h"
#include "format/torch/pickle_writer.h"
#include "view/hf/model_files.h"
#include "view/hyper/state_name.h"

namespace reshardfs {
namespace {

constexpr std::string_view kModel = "model";
constexpr std::string_view kOptimizer = "optimizer";
constexpr std::string_view kExtraState = "extra_state";
constexpr std::string_view kStep = "step";
/// More cannot be meant, and each has an object.
constexpr std::int64_t kMostGroups = 10'000;

DcpPath state_path(const StateName& name) {
  const std::string optimizer(kOptimizer);
  if (name.state.empty()) {
    return {optimizer, "_mixed_precision_optimizer", "fp32_from_fp16_params", name.weight};
  }
  return {optimizer, "state", name.weight, name.state};
}

/// Empty: it is a number.
std::string_view text_of(const std::variant<std::string, std::int64_t>& key) {
  const auto* const text = std::get_if<std::string>(&key);
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

/// Programs keep a model below this key, perhaps in a dictionary of their own.
std::optional<DcpPath> below_model(const DcpPath& path) {
  const auto key = std::find_if(path.begin(), path.end() - 1,
                                [](const auto& one) { return text_of(one) == kModel; });
  return key == path.end() - 1 ? std::nullopt : std::optional(DcpPath(key + 1, path.end()));
}

bool is_main_weight(const DcpPath& path) {
  return path.size() == 4 && text_of(path[2]) == "fp32_from_fp16_params";
}

/// The Trainer keeps moments and main weights in float32, whatever --cast makes of weights; what
/// has 16 bits is exact in it.
DType type_of_state(const DcpPath& path, const TargetParameter& parameter) {
  const DType stored = parameter.source->dtype;
  if (text_of(path.front()) != kOptimizer || text_of(path.back()) == kStep) return stored;
  const bool is_short = stored == DType::kFloat16 || stored == DType::kBFloat16;
  return is_short ? DType::kFloat32 : stored;
}

std::shared_ptr<const std::string> pickled(std::int64_t number) {
  PickleWriter out;
  out.integer(number);
  return std::make_shared<const std::string>(std::move(out).finish());
}

class ContentMaker {
 public:
  ContentMaker(const ViewContext& context, std::optional<std::int64_t> step)
      : context_(context),
        step_(context.options.weights_only ? std::nullopt : step),
        saved_(saved_objects(context)) {
    if (saved_) paths_ = known_paths(context, *saved_);
    const SetFormat* const format = context.whole->source().checkpoint().step_described_by();
    is_trainers_ = format != nullptr &&
                   (format->kind == "hyper_steps" || format->kind == "torch_items") &&
                   context.options.source.state_key.empty() &&
                   context.whole->source().mapped_from() == nullptr;
    if (step_) content_.step = *step_;
  }

  TrainerContent make() {
    require_use();
    for (const TargetParameter& parameter : context_.whole->parameters()) take(parameter);
    content_.weights = content_.tensors.size();
    if (content_.weights == 0) {
      throw Error(ErrorKind::kMissing, "no tensor that is shown is a weight, which hyper/ needs");
    }
    for (const TargetParameter* const state : unplaced_) place(*state);
    std::erase_if(states_, [this](const TrainerTensor& state) { return !fits_weight(state); });
    leave_out_some_main_weights();
    content_.tensors.insert(content_.tensors.end(), states_.begin(), states_.end());
    add_tied_head();
    add_objects();
    add_steps();
    warn();
    return std::move(content_);
  }

 private:
  /// @throws Error kUsage
  void require_use() const {
    const TrainerStatement& stated = context_.options.trainer;
    for (const auto& [name, member] : kTrainerWords) {
      if (!(stated.*member)) continue;
      const std::string option = "--map-var " + std::string(name);
      if (context_.options.weights_only) {
        throw Error(ErrorKind::kUsage,
                    option + " is about the training, which --weights-only leaves out")
            .hint("leave one of the two out");
      }
      if (step_) continue;
      throw Error(ErrorKind::kUsage, option + " needs a step, which the source does not state")
          .hint("state it, too: --map-var trainer_step=N");
    }
    if (stated.param_groups && (*stated.param_groups < 1 || *stated.param_groups > kMostGroups)) {
      throw Error(ErrorKind::kUsage, "--map-var trainer_param_groups is a number from 1 to " +
                                         std::to_string(kMostGroups));
    }
  }

  /// Where the source has it in nested dictionaries; nullopt: it is not known, or in none.
  std::optional<DcpPath> path_of(const std::string& name) const {
    const auto found = paths_.find(name);
    if (found != paths_.end() && found->second.size() > 1) return found->second;
    if (!is_trainers_) return std::nullopt;
    for (const std::string_view top : {kModel, kOptimizer, kExtraState}) {
      const std::string begin = std::string(top) + ".";
      if (!name.starts_with(begin) || name.size() == begin.size()) continue;
      return DcpPath{std::string(top), name.substr(begin.size())};
    }
    return std::nullopt;
  }

  void take(const TargetParameter& parameter) {
    if (!is_array(parameter.dtype)) return;
    if (parameter.treatment == Treatment::kRaw) {
      throw Error(ErrorKind::kUnsupported,
                  "--unmatched source copies its slices as they are, and hyper/ has whole tensors")
          .for_parameter(parameter.name)
          .hint("give strategies that have it, or leave it out with --exclude");
    }
    const std::string& stored = parameter.source->name;
    const auto path = path_of(parameter.name);
    const std::string_view top = path ? text_of(path->front()) : std::string_view();
    const bool is_of_hyper = saved_ && saved_->of_hyper;
    const auto below = path ? below_model(*path) : std::nullopt;
    if (is_of_hyper && (top == kOptimizer || top == kExtraState)) {
      if (context_.options.weights_only) return;
      states_.push_back({*path, &parameter, type_of_state(*path, parameter)});
      note_state(*path);
    } else if (top != kModel && is_state(stored)) {
      unplaced_.push_back(&parameter);
    } else {
      DcpPath own{std::string(kModel)};
      below ? own.insert(own.end(), below->begin(), below->end())
            : own.insert(own.end(), parameter.name);
      const std::string weight = dotted_name({own.begin() + 1, own.end()});
      weights_.emplace(stored, weight);
      weights_.emplace(weight, weight);
      shapes_.emplace(weight, parameter.grid ? &parameter.grid->full_shape() : nullptr);
      content_.tensors.push_back({std::move(own), &parameter, parameter.dtype});
    }
  }

  bool is_mapped_state(const std::string& stored) const {
    return context_.model.states->contains(stored);
  }
  bool is_state(const std::string& stored) const {
    return is_mapped_state(stored) || is_training_state(stored, context_.model.state_prefixes);
  }

  void place(const TargetParameter& parameter) {
    const std::string& stored = parameter.source->name;
    const auto name = parse_state_name(stored, is_mapped_state(stored));
    const auto weight = name ? weights_.find(name->weight) : weights_.end();
    // The numbers of smaller types are codes, or have scales of their own.
    const bool is_number =
        name && (name->state == kStep || can_cast(parameter.source->dtype, DType::kFloat32));
    if (weight == weights_.end() || !is_number) {
      left_out_.push_back(parameter.name);
      return;
    }
    if (name->state == kStep && context_.options.trainer.param_groups) return;
    DcpPath path = state_path({weight->second, name->state});
    note_state(path);
    const DType dtype = type_of_state(path, parameter);
    states_.push_back({std::move(path), &parameter, dtype});
  }

  /// Whether a state that has a number for each element of its weight has the weight's shape. Notes
  /// states whose weight is not shown.
  bool fits_weight(const TrainerTensor& state) {
    if (text_of(state.path.front()) != kOptimizer) return true;
    const auto name = parse_state_name(dotted_name(state.path), false);
    if (!name || name->state == kStep) return true;
    const auto weight = shapes_.find(name->weight);
    if (weight == shapes_.end()) {
      orphans_.push_back(state.parameter->name);
      return true;
    }
    constexpr std::array<std::string_view, 5> kLikeTheirs{"", "exp_avg", "exp_avg_sq",
                                                          "max_exp_avg_sq", "momentum_buffer"};
    const bool is_like =
        std::find(kLikeTheirs.begin(), kLikeTheirs.end(), name->state) != kLikeTheirs.end();
    const auto& grid = state.parameter->grid;
    if (!is_like || !grid || weight->second == nullptr || grid->full_shape() == *weight->second) {
      return true;
    }
    context_.warnings.push_back("left out of hyper/: '" + printable(state.parameter->name) +
                                "' is " + to_string(grid->full_shape()) + ", but its weight '" +
                                printable(name->weight) + "' is " + to_string(*weight->second));
    return false;
  }

  /// Which weights have states, and which of them the number of steps.
  void note_state(const DcpPath& path) {
    if (is_main_weight(path)) {
      main_weights_.insert(std::string(text_of(path.back())));
    } else if (path.size() == 4) {
      const std::string weight(text_of(path[2]));
      (text_of(path.back()) == kStep ? counted_ : trained_).insert(weight);
    }
  }

  /// The Trainer loads all of them, or none.
  void leave_out_some_main_weights() {
    if (main_weights_.empty()) return;
    const auto has_main = [&](const std::string& weight) { return main_weights_.contains(weight); };
    std::string lacking;
    for (const auto& [stored, weight] : weights_) {
      const bool is_needed = trained_.empty() || trained_.contains(weight);
      if (is_needed && !has_main(weight) && (lacking.empty() || weight < lacking)) lacking = weight;
    }
    if (lacking.empty()) return;
    std::erase_if(states_, [](const TrainerTensor& state) { return is_main_weight(state.path); });
    context_.warnings.push_back(
        "hyper/ has no main weights in float32: the Trainer loads all or none, and the source has "
        "none of '" +
        printable(lacking) + "'");
  }

  /// The Trainer asks for both names.
  void add_tied_head() {
    constexpr const char* kHead = "lm_head.weight";
    constexpr const char* kEmbedding = "model.embed_tokens.weight";
    if (weights_.contains(kHead) || !states_tied_embeddings(context_)) return;
    for (std::size_t i = 0; i < content_.weights; ++i) {
      const TrainerTensor& tensor = content_.tensors[i];
      if (text_of(tensor.path.back()) != kEmbedding) continue;
      content_.aliases.push_back({{std::string(kModel), kHead}, i});
    }
  }

  void add_objects() {
    const TrainerStatement& stated = context_.options.trainer;
    const std::string extra(kExtraState);
    if (stated.epoch) make_object({extra, "epoch"}, *stated.epoch);
    if (stated.step) make_object({extra, "global_step"}, *stated.step);
    for (std::int64_t i = 0; stated.param_groups && i < *stated.param_groups; ++i) {
      make_object({std::string(kOptimizer), "param_groups", i, std::string(kStep)}, *step_);
    }
    if (saved_ && saved_->of_hyper) {
      for (PassedObject& object : passed_objects(context_, *saved_)) pass(std::move(object));
    }
    if (step_) make_object({extra, "global_step"}, *step_);
  }

  /// Unless there is one.
  void make_object(DcpPath path, std::int64_t number) {
    std::string name = dotted_name(path);
    if (!objects_.insert(name).second) return;
    content_.objects.push_back({std::move(path), {std::move(name), nullptr, {}, pickled(number)}});
  }

  void pass(PassedObject object) {
    if (!objects_.insert(object.name).second) return;
    const auto path = path_of(object.name);
    counts_by_group_ |= object.name.starts_with("optimizer.param_groups.") &&
                        object.name.ends_with("." + std::string(kStep));
    content_.objects.push_back({path ? *path : DcpPath{object.name}, std::move(object)});
  }

  void add_steps() {
    if (!step_ || context_.options.trainer.param_groups || counts_by_group_) return;
    for (std::size_t i = 0; i < content_.weights; ++i) {
      const std::string weight = dotted_name(
          DcpPath(content_.tensors[i].path.begin() + 1, content_.tensors[i].path.end()));
      if (!trained_.contains(weight) || counted_.contains(weight)) continue;
      content_.steps.push_back(state_path({weight, std::string(kStep)}));
    }
  }

  void warn() {
    context_.tell_left_out(*context_.whole, "hyper/");
    std::erase(left_out_, "global_step");
    std::erase(left_out_, "step_num");
    if (!left_out_.empty()) {
      context_.warnings.push_back("left out of hyper/, because the Trainer has no such states: " +
                                  name_list(left_out_));
    }
    if (!orphans_.empty()) {
      context_.warnings.push_back(
          "hyper/ has states that the Trainer does not load, because their weights are missing or "
          "have other names: " +
          name_list(orphans_));
    }
    if (objects_.contains("extra_state.global_step")) {
      if (objects_.contains("extra_state.epoch")) return;
      context_.warnings.emplace_back(
          "hyper/ does not state the epoch, which other programs count differently: the Trainer "
          "keeps its own; --map-var trainer_epoch=N states it");
      return;
    }
    const std::string start = "start the Trainer with restore_train_state: false";
    if (context_.options.weights_only) {
      context_.warnings.push_back("hyper/ has weights alone: " + start);
      return;
    }
    const bool are_counted = counts_by_group_ || std::includes(counted_.begin(), counted_.end(),
                                                               trained_.begin(), trained_.end());
    context_.warnings.push_back(
        "hyper/ does not state the step, because the source does not" +
        std::string(are_counted ? "" : ", and without it AdamW treats the moments as new") + ": " +
        start + ", or state it with --map-var trainer_step=N");
  }

  const ViewContext& context_;
  const std::optional<std::int64_t> step_;
  const std::shared_ptr<const SavedObjects> saved_;
  std::unordered_map<std::string, DcpPath> paths_{};
  bool is_trainers_ = false;
  TrainerContent content_{};
  std::vector<TrainerTensor> states_{};
  std::vector<const TargetParameter*> unplaced_{};
  /// To what the Trainer calls a weight, from that and from its name in the source.
  std::unordered_map<std::string, std::string> weights_{};
  std::unordered_map<std::string, const Shape*> shapes_{};  ///< by what the Trainer calls it
  std::vector<std::string> orphans_{};  ///< states of weights that are not shown
  std::set<std::string> trained_{};
  std::set<std::string> counted_{};
  std::set<std::string> main_weights_{};
  std::set<std::string> objects_{};
  bool counts_by_group_ = false;
  std::vector<std::string> left_out_{};
};

}  // namespace

TrainerContent trainer_content(const ViewContext& context, std::optional<std::int64_t> step) {
  return ContentMaker(context, step).make();
}

}  // namespace reshardfs
