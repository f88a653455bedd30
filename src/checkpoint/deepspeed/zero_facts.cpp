// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "reshardfs/error.h"

#include "base/text/text.h"
#include "checkpoint/deepspeed/zero_names.h"
#include "checkpoint/series/step_directories.h"
#include "format/torch/torch_tensor.h"

namespace reshardfs {
namespace {

constexpr std::string_view kStepKey = "step";
constexpr const char* kGlobalSteps = "global_steps";

template <typename T>
std::optional<std::int64_t> whole_number(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(value));
  constexpr double kMost = 9007199254740992.0;  // every whole number up to it is a double
  const auto wide = static_cast<double>(value);
  if (!(std::abs(wide) <= kMost) || std::trunc(wide) != wide) return std::nullopt;
  return static_cast<std::int64_t>(wide);
}

std::optional<std::int64_t> number_in(const ByteSource& source, const TorchTensor& tensor) {
  const bool is_one = is_contiguous(tensor) && element_count(tensor.shape) == 1;
  const bool is_known = tensor.dtype == DType::kFloat32 || tensor.dtype == DType::kFloat64 ||
                        tensor.dtype == DType::kInt32 || tensor.dtype == DType::kInt64;
  if (!is_one || !is_known) return std::nullopt;
  std::array<std::byte, sizeof(std::int64_t)> bytes{};
  const ByteRange range = contiguous_range(tensor);
  source.read_at(range.offset(), std::span(bytes).first(static_cast<std::size_t>(range.length())));
  if (tensor.dtype == DType::kFloat32) return whole_number<float>(bytes);
  if (tensor.dtype == DType::kFloat64) return whole_number<double>(bytes);
  if (tensor.dtype == DType::kInt32) return whole_number<std::int32_t>(bytes);
  return whole_number<std::int64_t>(bytes);
}

void add_text(const PickleTree& tree, PickleValue dict, std::string_view key, SaveFacts& facts) {
  if (const auto text = tree.text(tree.find(dict, key))) {
    facts.insert_or_assign(std::string(key), std::string(*text));
  }
}

void add_steps(const TorchArchive& archive, PickleValue optimizer, ZeroSteps& steps) {
  const PickleTree& tree = archive.tree();
  const auto add = [&](std::size_t group, PickleValue states) {
    if (const auto step = saved_number(archive, tree.find(states, kStepKey))) {
      steps.insert_or_assign(group, *step);
    }
  };
  std::size_t group = 0;
  tree.for_each(optimizer, [&](PickleValue states) {
    add(group++, states);
    return true;
  });
  group = 0;
  tree.for_each(tree.find(optimizer, "param_groups"), [&](PickleValue values) {
    add(group++, values);
    return true;
  });
  tree.for_each_pair(tree.find(optimizer, "state"), [&](PickleValue key, PickleValue states) {
    const auto number = tree.integer(key);
    if (number && *number >= 0) add(static_cast<std::size_t>(*number), states);
    return true;
  });
}

}  // namespace

void OneSave::add(const std::string& file, const SaveFacts& facts) {
  for (const auto& [key, value] : facts) {
    const auto [known, is_new] = known_.try_emplace(key, Stated{value, file});
    if (is_new || known->second.value == value) continue;
    throw Error(ErrorKind::kBadInput, "'" + printable(known->second.file) + "' and '" +
                                          printable(file) +
                                          "' are not of one save: " + printable(key) + " is " +
                                          printable(known->second.value) + " in the first, and " +
                                          printable(value) + " in the second")
        .hint(kBringAll);
  }
}

std::optional<std::int64_t> saved_number(const TorchArchive& archive, PickleValue value) {
  if (const auto number = archive.tree().integer(value)) return number;
  if (!archive.is_tensor(value)) return std::nullopt;
  return number_in(archive.source(), archive.tensor(value));
}

SaveFacts zero_model_facts(const TorchArchive& archive) {
  const PickleTree& tree = archive.tree();
  SaveFacts facts;
  for (const std::string_view key :
       {"global_steps", "skipped_steps", "global_samples", "dp_world_size", "mp_world_size"}) {
    if (const auto number = tree.integer(tree.find(tree.root(), key))) {
      facts.emplace(key, std::to_string(*number));
    }
  }
  add_text(tree, tree.root(), "ds_version", facts);
  return facts;
}

SaveFacts zero_optimizer_facts(const TorchArchive& archive, PickleValue optimizer,
                               ZeroSteps& steps) {
  const PickleTree& tree = archive.tree();
  SaveFacts facts;
  const PickleValue states = tree.find(tree.root(), "optimizer_state_dict");
  add_text(tree, states, "ds_version", facts);
  if (const auto stage = tree.integer(tree.find(states, "zero_stage"))) {
    facts.emplace("zero_stage", std::to_string(*stage));
  }
  add_text(tree, tree.root(), "ds_version", facts);
  add_steps(archive, optimizer, steps);
  for (const auto& [group, step] : steps) {
    facts.emplace("the step of group " + std::to_string(group), std::to_string(step));
  }
  return facts;
}

void require_one_zero_save(const std::vector<ZeroFile>& files) {
  OneSave save;
  for (const ZeroFile& file : files) save.add(file.name, file.facts);
}

void require_one_zero_save(const std::filesystem::path& directory,
                           const std::vector<ZeroFile>& files) {
  try {
    require_one_zero_save(files);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message()).in_file(directory.string()).hint(kBringAll);
  }
}

void note_other_step(const std::filesystem::path& directory, const std::vector<ZeroFile>& files,
                     Discovery& out) {
  const std::string name = directory_name(directory);
  auto named = parse_zero_tag(name);
  if (!named) named = parse_universal_tag(name);
  if (!named) return;
  for (const ZeroFile& file : files) {
    const auto saved = file.facts.find(kGlobalSteps);
    if (saved == file.facts.end() || saved->second == *named) continue;
    out.warnings.push_back("'" + printable(file.name) + "' states global_steps " + saved->second +
                           ", but its directory is named '" + printable(name) +
                           "': the trainer counts steps of its own, or the files are of another "
                           "step");
    return;
  }
}

void require_steps(const ZeroSteps& steps, const std::string& name,
                   const std::optional<std::int64_t>& model_steps) {
  if (steps.empty() || !model_steps) return;
  const std::int64_t first = steps.begin()->second;
  // Where groups count differently, no single number can be compared.
  const bool is_one = std::all_of(steps.begin(), steps.end(),
                                  [&](const auto& group) { return group.second == first; });
  if (!is_one || first <= *model_steps) return;
  throw Error(ErrorKind::kBadInput,
              "'" + printable(name) + "' has the optimizer's states after step " +
                  std::to_string(first) + ", but the file of model states is of global_steps " +
                  std::to_string(*model_steps) + ": they are not of one save");
}

}  // namespace reshardfs
