// SPDX-License-Identifier: Apache-2.0
/// The words for the choices of options, in the command line, configuration files and messages.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/conversion_options.h"

namespace reshardfs {

template <typename Value>
struct OptionWord {
  Value value;
  std::string_view word;
};

inline constexpr std::array<OptionWord<Unmatched>, 4> kUnmatchedWords{
    {{Unmatched::kDrop, "drop"},
     {Unmatched::kSource, "source"},
     {Unmatched::kReplicate, "replicate"},
     {Unmatched::kError, "error"}}};

inline constexpr std::array<OptionWord<Replicas>, 3> kReplicasWords{
    {{Replicas::kSame, "same"}, {Replicas::kFirst, "first"}, {Replicas::kOwn, "own"}}};

inline constexpr std::array<OptionWord<OutputFormat>, 3> kFormatWords{
    {{OutputFormat::kCkpt, "ckpt"},
     {OutputFormat::kSafetensors, "safetensors"},
     {OutputFormat::kTorch, "torch"}}};

inline constexpr std::array<OptionWord<TorchRelease>, 2> kTorchReleaseWords{
    {{TorchRelease::k2, "2"}, {TorchRelease::k113, "1.13"}}};
inline constexpr std::array<OptionWord<IterationRelease>, 2> kIterationReleaseWords{
    {{IterationRelease::k20, "2.0"}, {IterationRelease::k21, "2.1"}}};

inline constexpr std::array<OptionWord<MapDirection>, 3> kMapDirectionWords{
    {{MapDirection::kAuto, "auto"},
     {MapDirection::kForward, "forward"},
     {MapDirection::kInverse, "inverse"}}};

inline constexpr std::array<OptionWord<ViewKind>, 16> kViewWords{
    {{ViewKind::kRanks, "ranks"},
     {ViewKind::kMerged, "merged"},
     {ViewKind::kMergedCkpt, "merged-ckpt"},
     {ViewKind::kMergedSafetensors, "merged-safetensors"},
     {ViewKind::kMergedTorch, "merged-torch"},
     {ViewKind::kHub, "hub"},
     {ViewKind::kParams, "params"},
     {ViewKind::kHuggingFace, "hf"},
     {ViewKind::kUnified, "unified"},
     {ViewKind::kIteration, "iteration"},
     {ViewKind::kDcp, "dcp"},
     {ViewKind::kDcpHuggingFace, "dcp-hf"},
     {ViewKind::kMegatron, "megatron"},
     {ViewKind::kHyper, "hyper"},
     {ViewKind::kVllm, "vllm"},
     {ViewKind::kStrategy, "strategy"}}};

/// By the names that --map-var has for them.
inline constexpr std::array<
    std::pair<std::string_view, std::optional<std::int64_t> TrainerStatement::*>, 3>
    kTrainerWords{{{"trainer_step", &TrainerStatement::step},
                   {"trainer_epoch", &TrainerStatement::epoch},
                   {"trainer_param_groups", &TrainerStatement::param_groups}}};

template <typename Value, std::size_t kCount>
std::string word_of(const std::array<OptionWord<Value>, kCount>& words, Value value) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [value](const auto& entry) { return entry.value == value; });
  return found == words.end() ? "" : std::string(found->word);
}

/// nullopt if there is no such word.
template <typename Value, std::size_t kCount>
std::optional<Value> value_of(const std::array<OptionWord<Value>, kCount>& words,
                              std::string_view word) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [word](const auto& entry) { return entry.word == word; });
  return found == words.end() ? std::nullopt : std::optional(found->value);
}

/// @param texts each must be one of the words.
template <typename Value, std::size_t kCount>
std::vector<Value> values_of(const std::array<OptionWord<Value>, kCount>& words,
                             const std::vector<std::string>& texts) {
  std::vector<Value> values;
  for (const std::string& text : texts) {
    if (const auto value = value_of(words, text)) values.push_back(*value);
  }
  return values;
}

template <typename Value, std::size_t kCount>
std::vector<std::string> all_words(const std::array<OptionWord<Value>, kCount>& words) {
  std::vector<std::string> all;
  all.reserve(kCount);
  for (const auto& entry : words) all.emplace_back(entry.word);
  return all;
}

}  // namespace reshardfs
