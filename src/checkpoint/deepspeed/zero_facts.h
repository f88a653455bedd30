// SPDX-License-Identifier: Apache-2.0
/// What files of DeepSpeed state of the save that they are from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/ranks/discovery.h"
#include "format/torch/torch_archive.h"

namespace reshardfs {

/// What to do where files contradict each other, or are missing.
inline constexpr const char* kBringAll = "bring all files of the step, from one save";

/// What a file states of its save, by key: "global_steps" is "500".
using SaveFacts = std::map<std::string, std::string>;

/// Whether files are of one save: what they state of it must be the same.
class OneSave {
 public:
  /// @param file its name, for messages.
  /// @param facts may lack keys that other files have.
  /// @throws Error kBadInput, without a file, if an earlier file states another value of a key;
  ///         names both files and both values.
  void add(const std::string& file, const SaveFacts& facts);

 private:
  struct Stated {
    std::string value{};
    std::string file{};
  };

  std::map<std::string, Stated> known_;
};

/// The optimizer's steps, by group.
using ZeroSteps = std::map<std::size_t, std::int64_t>;

/// A whole number, or a tensor of one; nothing for other values. Reads the tensor's bytes.
std::optional<std::int64_t> saved_number(const TorchArchive& archive, PickleValue value);

/// Of a file of model_states.
SaveFacts zero_model_facts(const TorchArchive& archive);

/// Of a file of optim_states.
/// @param optimizer the states of torch's optimizer: {"state": {group: {...}}, "param_groups":
///        [...]}, or a list with the state of each group.
/// @param steps is set to the steps of the groups that have one.
SaveFacts zero_optimizer_facts(const TorchArchive& archive, PickleValue optimizer,
                               ZeroSteps& steps);

/// Facts that a file states of its save.
struct ZeroFile {
  std::string name{};
  SaveFacts facts{};
};

/// @throws Error kBadInput, without the directory, if the files contradict each other.
void require_one_zero_save(const std::vector<ZeroFile>& files);
/// The same, with the directory and what to do.
void require_one_zero_save(const std::filesystem::path& directory,
                           const std::vector<ZeroFile>& files);

/// Adds a warning if a file states other global_steps than the name of the directory: some trainers
/// put a count of their own into it (OpenRLHF: openrlhf/trainer/ppo_trainer.py).
void note_other_step(const std::filesystem::path& directory, const std::vector<ZeroFile>& files,
                     Discovery& out);

/// @param steps of a file of optim_states, named `name`.
/// @param model_steps what a file of model_states states as global_steps.
/// @throws Error kBadInput, without the directory, if the optimizer has made more steps.
void require_steps(const ZeroSteps& steps, const std::string& name,
                   const std::optional<std::int64_t>& model_steps);

}  // namespace reshardfs
