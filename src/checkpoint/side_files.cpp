// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/side_files.h"

#include <algorithm>
#include <array>

#include "base/text/text.h"
#include "checkpoint/recognition.h"
#include "checkpoint/whole/lora_adapter.h"

namespace reshardfs {
namespace {

/// Whether only numbers and what they count stand behind the word: "_world_size_2_rank_0.pt".
bool only_counts(std::string_view rest) noexcept {
  constexpr std::array<std::string_view, 8> kWords{"rank",  "world",  "size",  "of",
                                                   "state", "states", "shard", "dict"};
  rest = rest.substr(0, rest.find('.'));
  while (!rest.empty()) {
    const std::size_t begin = rest.find_first_not_of("0123456789_-");
    if (begin == std::string_view::npos) return true;
    if (begin == 0) return false;  // the word goes on, as in "optimal"
    rest.remove_prefix(begin);
    const std::string_view word = rest.substr(0, rest.find_first_of("0123456789_-"));
    if (std::find(kWords.begin(), kWords.end(), word) == kWords.end()) return false;
    rest.remove_prefix(word.size());
  }
  return true;
}

template <std::size_t size>
bool is_any_of(std::string_view name, const std::array<std::string_view, size>& words) noexcept {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return name.starts_with(word) && only_counts(name.substr(word.size()));
  });
}

/// The names of directories with models.
std::vector<std::string> models_below(const std::filesystem::path& directory,
                                      const SourceTreePtr& tree) {
  std::vector<std::string> models;
  for (const std::string& name : directories_by_number(directory, tree)) {
    if (is_checkpoint(directory / name)) models.push_back(name);
  }
  std::sort(models.begin(), models.end());
  return models;
}

bool contains(std::string_view name, std::string_view word) noexcept {
  return name.find(word) != std::string_view::npos;
}

}  // namespace

SideFile side_file(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 4> kOptimizers{"optimizer", "optimizers", "optim",
                                                        "distrib_optim"};
  // Those of Hugging Face's Trainer and accelerate, torchtune, verl and Megatron-Core.
  constexpr std::array<std::string_view, 11> kRunStates{
      "scheduler",     "lr_scheduler",  "rng_state",        "random_states",
      "training_args", "trainer_state", "extra_state",      "scaler",
      "grad_scaler",   "sampler",       "custom_checkpoint"};
  constexpr std::array<std::string_view, 3> kWholeNames{"data.pt", "common.pt", "rng.pt"};
  if (is_adapter_file(name)) return SideFile::kAdapter;
  if (is_any_of(name, kOptimizers) || contains(name, "optimizer_state") ||
      contains(name, "optim_states")) {
    return SideFile::kOptimizer;
  }
  const bool is_state =
      is_any_of(name, kRunStates) || contains(name, "dataloader") ||
      std::find(kWholeNames.begin(), kWholeNames.end(), name) != kWholeNames.end();
  return is_state ? SideFile::kRunState : SideFile::kNone;
}

bool has_no_weights(std::string_view name) noexcept {
  const SideFile kind = side_file(name);
  return kind == SideFile::kOptimizer || kind == SideFile::kRunState;
}

Error without_weights(const std::filesystem::path& directory, const std::vector<std::string>& names,
                      const SourceTreePtr& tree) {
  const std::vector<std::string> models = models_below(directory, tree);
  const std::string what = "has no weights, only " + name_list(names);
  if (models.empty()) {
    return Error(ErrorKind::kMissing, what)
        .in_file(directory.string())
        .hint("bring the model's files, or choose another step; to read such a file, name it");
  }
  return Error(ErrorKind::kMissing, what + "; the models are below it, in " + name_list(models))
      .in_file(directory.string())
      .hint("name one of them, for example " + printable((directory / models.front()).string()));
}

void refuse_beside_models(const std::filesystem::path& directory, const std::string& name,
                          const SourceTreePtr& tree) {
  const std::vector<std::string> models = models_below(directory, tree);
  if (models.empty()) return;
  throw Error(ErrorKind::kMissing, "has '" + printable(name) + "' beside models in " +
                                       name_list(models) + ": which is the checkpoint?")
      .in_file(directory.string())
      .hint("name one of them, for example " + printable((directory / models.front()).string()) +
            ", or the file");
}

}  // namespace reshardfs
