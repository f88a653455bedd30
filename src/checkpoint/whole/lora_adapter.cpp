// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/lora_adapter.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/text/text.h"
#include "checkpoint/checkpoint_set.h"
#include "storage/local/directory.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMostAdapterBytes = std::uint64_t{1} << 20U;

/// "org/name"; empty if the file beside the adapter does not say.
std::string base_model_of(const std::filesystem::path& adapter) {
  if (is_url(adapter)) return {};
  try {
    const auto config = JsonDocument::parse(
        read_small_file(adapter.parent_path() / "adapter_config.json", kMostAdapterBytes));
    if (!config) return {};
    const auto base = config->value().find("base_model_name_or_path");
    return base ? std::string(base->text().value_or(std::string_view())) : std::string();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

bool is_adapter_file(std::string_view file_name) noexcept {
  return file_name == "adapter_model.safetensors" || file_name == "adapter_model.bin";
}

bool is_adapter_name(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 5> kParts{".lora_A.", ".lora_B.", ".lora_embedding_A",
                                                   ".lora_embedding_B", ".lora_magnitude_vector"};
  return name.starts_with("base_model.model.") &&
         std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) {
           return name.find(part) != std::string_view::npos;
         });
}

std::string adapter_words(const CheckpointSet& set) {
  if (!set.adapter().empty()) {
    return "the set is " + set.adapter() +
           ", not a model: merge it with its model in MindSpore Transformers first";
  }
  const auto is_of_adapter = [](const RankFile& file) {
    const auto& entries = file.index->entries();
    return std::any_of(entries.begin(), entries.end(),
                       [](const TensorEntry& entry) { return is_adapter_name(entry.name); });
  };
  const auto file = std::find_if(set.files().begin(), set.files().end(), is_of_adapter);
  if (file == set.files().end()) return {};
  const std::string base = base_model_of(file->path);
  return "the tensors are those of a LoRA adapter of " +
         (base.empty() ? "a model that no adapter_config.json names" : printable(base)) +
         ", not of a model: merge it with its model first, with merge_and_unload() of peft";
}

}  // namespace reshardfs
