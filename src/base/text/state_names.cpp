// SPDX-License-Identifier: Apache-2.0
#include "base/text/state_names.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace reshardfs {
namespace {

/// What MindSpore's optimizers put before the name of the parameter that a state belongs to.
constexpr std::array<std::string_view, 8> kStatePrefixes{"accu_grads.", "adam_m.",     "adam_v.",
                                                         "exp_avg.",    "exp_avg_sq.", "moment1.",
                                                         "moment2.",    "moments."};

/// Whole names, of any trainer.
constexpr std::array<std::string_view, 19> kCounters{"beta1_power",
                                                     "beta2_power",
                                                     "ckpt_status",
                                                     "consumed_samples",
                                                     "current_iterator_step",
                                                     "epoch",
                                                     "epoch_num",
                                                     "global_batch_size",
                                                     "global_step",
                                                     "iteration",
                                                     "last_overflow_iterator_step",
                                                     "learning_rate",
                                                     "loss_scale",
                                                     "lr",
                                                     "momentum",
                                                     "scale_sense",
                                                     "step",
                                                     "step_num",
                                                     "weight_decay"};

/// Where programs keep what is no model, at the top of their dictionaries.
constexpr std::array<std::string_view, 16> kNoModels{
    "common_state",    "dataloader",           "extra_state",
    "grad_scaler",     "lr_scheduler",         "lr_schedulers",
    "optim",           "optim_state_dict",     "optimizer",
    "optimizer_state", "optimizer_state_dict", "optimizer_states",
    "optimizers",      "opt_param_scheduler",  "rng_state",
    "train_state"};

constexpr std::array<std::string_view, 6> kOptimizers{"opt",        "optim",     "optimizer",
                                                      "optimizers", "opt_state", "optim_state"};
/// What stands behind the optimizer's name.
constexpr std::array<std::string_view, 3> kParts{"distributed", "param_groups", "state"};

/// What torch.optim calls the states of one parameter.
constexpr std::array<std::string_view, 12> kTorchStates{
    "acc_delta",       "exp_avg",    "exp_avg_sq", "exp_inf",    "grad_avg", "max_exp_avg_sq",
    "momentum_buffer", "mu_product", "prev",       "square_avg", "step",     "sum"};

template <std::size_t size>
bool is_one_of(const std::array<std::string_view, size>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_torch_state(std::string_view name) {
  std::size_t end = name.find('.');
  if (end == std::string_view::npos) return false;
  std::string_view part = name.substr(0, end);
  if (is_one_of(kNoModels, part)) return true;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  while (end != std::string_view::npos) {
    const std::size_t begin = end + 1;
    end = name.find('.', begin);
    const std::string_view next = name.substr(begin, end - begin);
    if (is_one_of(kOptimizers, part) && is_one_of(kParts, next)) return true;
    // Under whatever name: state.<weight>.exp_avg
    const bool is_before_last = end == std::string_view::npos;
    if (part == "state" && !is_before_last && is_one_of(kTorchStates, last)) return true;
    part = next;
  }
  return false;
}

/// The bytes of a prefix that one of MindSpore's optimizers has put before a name.
std::size_t state_prefix_bytes(std::string_view name) {
  for (const std::string_view prefix : kStatePrefixes) {
    if (name.starts_with(prefix)) return prefix.size();
  }
  return 0;
}

}  // namespace

std::string weight_name_of(const std::string& name) {
  return name.substr(state_prefix_bytes(name));
}

bool is_training_state(const std::string& name, const std::vector<std::string>& prefixes) {
  const bool has_prefix = std::any_of(
      prefixes.begin(), prefixes.end(),
      [&](const std::string& prefix) { return !prefix.empty() && name.starts_with(prefix); });
  return has_prefix || state_prefix_bytes(name) > 0 || is_one_of(kCounters, name) ||
         is_torch_state(name);
}

std::vector<std::string> without_states(const std::set<std::string>& names) {
  std::vector<std::string> kept;
  for (const std::string& name : names) {
    const std::string weight = weight_name_of(name);
    if (weight == name || !names.contains(weight)) kept.push_back(name);
  }
  return kept;
}

}  // namespace reshardfs
