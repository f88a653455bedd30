// SPDX-License-Identifier: Apache-2.0
/// unified/: the whole model as MindSpore's unified_safetensors writes it and its
/// load_distributed_checkpoint(format="safetensors") reads it: part<i>.safetensors with the
/// parameters that the source strategy lays out, param_name_map.json, and hyper_param.safetensors
/// with all others.
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "reshardfs/error.h"

#include "view/files/shown_words.h"
#include "view/files/text_file.h"
#include "view/merged/weight_map.h"
#include "view/view.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kPartBytes = 3ULL << 30U;
/// What MindSpore 2.10 takes for the size of elements whose types it does not look for.
constexpr std::uint64_t kOtherBytes = 4;

using Parameters = std::vector<const TargetParameter*>;

/// As MindSpore 2.10 counts it; earlier versions count 4 bytes for each element.
std::uint64_t full_bytes(const TargetParameter& parameter) {
  const DType type = parameter.dtype;
  const bool is_counted = dtype_from_mindspore(mindspore_name(type)).has_value();
  const auto elements = static_cast<std::uint64_t>(element_count(parameter.grid->full_shape()));
  return elements * (is_counted ? static_cast<std::uint64_t>(element_size(type)) : kOtherBytes);
}

struct Division {
  Parameters weights;  ///< in the order of the map: largest first
  std::vector<Parameters> parts;
  std::vector<std::size_t> part_of;  ///< by position in `weights`
  std::uint64_t bytes = 0;           ///< of all weights
};

/// Each weight goes to the part that is least full, the first of several such.
Division divide(Parameters weights) {
  Division division;
  std::vector<std::pair<std::uint64_t, const TargetParameter*>> sized;
  sized.reserve(weights.size());
  for (const TargetParameter* weight : weights) {
    sized.emplace_back(full_bytes(*weight), weight);
    division.bytes += sized.back().first;
  }
  std::stable_sort(sized.begin(), sized.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const std::uint64_t wanted = (division.bytes + kPartBytes - 1) / kPartBytes;
  const auto count = static_cast<std::size_t>(std::clamp<std::uint64_t>(wanted, 1, weights.size()));
  division.parts.resize(count);
  using Filled = std::pair<std::uint64_t, std::size_t>;  // bytes, part
  std::priority_queue<Filled, std::vector<Filled>, std::greater<>> filled;
  for (std::size_t part = 0; part < count; ++part) filled.emplace(0, part);
  for (std::size_t i = 0; i < sized.size(); ++i) {
    const auto [bytes, weight] = sized[i];
    auto [least, part] = filled.top();
    filled.pop();
    filled.emplace(least + bytes, part);
    division.parts[part].push_back(weight);
    division.part_of.push_back(part);
    weights[i] = weight;
  }
  division.weights = std::move(weights);
  return division;
}

std::string part_name(std::size_t part) {
  return "part" + std::to_string(part) + ".safetensors";
}

/// As Python's json writes it with an indent of 4.
WeightMap name_map(const Division& division, bool counts_only) {
  WeightMap map(division.bytes, 4, counts_only);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < division.parts.size(); ++i) names.push_back(part_name(i));
  for (std::size_t i = 0; i < division.weights.size(); ++i) {
    map.add(division.weights[i]->name, names[division.part_of[i]]);
  }
  return map;
}

/// The arrays that are weights, or those that are not.
Parameters arrays_that(const TargetTable& whole, bool are_weights) {
  Parameters list = arrays_of(whole, kWholeRank);
  std::erase_if(list, [are_weights](const TargetParameter* parameter) {
    return (parameter->treatment == Treatment::kReshard) != are_weights;
  });
  return list;
}

}  // namespace

std::vector<OutputFile> unified_view(const ViewContext& context) {
  if (context.whole == nullptr) return {};
  Parameters weights = arrays_that(*context.whole, true);
  const Parameters others = arrays_that(*context.whole, false);
  if (weights.empty()) {
    context.leave_out(ViewKind::kUnified, "unified/",
                      Error(ErrorKind::kMissing,
                            "no tensor that is shown is a parameter with a layout, which MindSpore "
                            "looks for there"));
    return {};
  }
  const Division division = divide(std::move(weights));
  const auto plain = safetensors_common(context, SafetensorsKind::kMindSpores, "ms");
  const auto of_parts = with_words(plain, words_of_types({*context.whole}));
  std::vector<OutputFile> files;
  const auto add = [&](const std::string& name, const Parameters& parameters, const auto& common) {
    files.push_back({"unified/" + name, std::make_shared<SafetensorsFile>(context.whole, kWholeRank,
                                                                          parameters, common)});
  };
  try {
    for (std::size_t i = 0; i < division.parts.size(); ++i)
      add(part_name(i), division.parts[i], of_parts);
    const auto with_texts =
        safetensors_common(context, *context.whole, SafetensorsKind::kMindSpores, "ms");
    const bool any_text = with_texts->metadata.size() > plain->metadata.size();
    if (!others.empty() || any_text) add("hyper_param.safetensors", others, with_texts);
  } catch (const Error& error) {
    context.leave_out(ViewKind::kUnified, "unified/", error);
    return {};
  }
  files.push_back({"unified/param_name_map.json",
                   std::make_shared<MadeFile>(
                       [whole = context.whole] {
                         return name_map(divide(arrays_that(*whole, true)), false).finish();
                       },
                       name_map(division, true).finished_bytes())});
  return files;
}

}  // namespace reshardfs
