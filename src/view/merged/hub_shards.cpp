// SPDX-License-Identifier: Apache-2.0
#include "view/merged/hub_shards.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/content_size.h"
#include "view/files/text_file.h"
#include "view/merged/weight_map.h"
#include "view/view.h"

namespace reshardfs {
namespace {

using Shard = std::vector<const TargetParameter*>;

std::uint64_t bytes_of(const TargetTable& whole, const TargetParameter& parameter) {
  return static_cast<std::uint64_t>(
      content_size(whole.slice_shape(parameter, kWholeRank), parameter.dtype, "a file's size"));
}

/// In the model's order, each shard as full as it can be.
std::vector<Shard> shards_of(const TargetTable& whole, std::uint64_t limit,
                             const TakesParameter& takes) {
  std::vector<Shard> shards;
  std::uint64_t filled = 0;
  for (const TargetParameter* parameter : arrays_of(whole, kWholeRank)) {
    if (takes && !takes(*parameter)) continue;
    const std::uint64_t bytes = bytes_of(whole, *parameter);
    const bool fits = !shards.empty() && filled <= limit && bytes <= limit - filled;
    if (!fits) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(parameter);
    filled += bytes;
  }
  return shards;
}

std::string shard_name(std::size_t number, std::size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, count);
}

/// Sorted by name.
std::string index_of(const TargetTable& whole, std::uint64_t limit, const TakesParameter& takes) {
  const std::vector<Shard> shards = shards_of(whole, limit, takes);
  std::vector<std::pair<const TargetParameter*, std::size_t>> places;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const TargetParameter* parameter : shards[i]) {
      places.emplace_back(parameter, i);
      total = add_or_throw(total, bytes_of(whole, *parameter), "the model's size");
    }
  }
  std::sort(places.begin(), places.end(),
            [](const auto& a, const auto& b) { return a.first->name < b.first->name; });
  WeightMap index(total, 2);
  for (const auto& [parameter, shard] : places) {
    index.add(parameter->name, shard_name(shard, shards.size()));
  }
  return std::move(index).finish();
}

}  // namespace

std::vector<OutputFile> hub_shards(const ViewContext& context, const std::string& directory,
                                   const TakesParameter& takes) {
  const std::uint64_t limit = context.options.shard_bytes;
  const std::vector<Shard> shards = shards_of(*context.whole, limit, takes);
  if (shards.empty()) return {};
  // Those libraries refuse a file whose format is not one of theirs. Texts stay in the other views.
  const auto common = safetensors_common(context, SafetensorsKind::kOwn, "pt");
  std::vector<OutputFile> files;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    files.push_back(
        {directory + "/" + shard_name(i, shards.size()),
         std::make_shared<SafetensorsFile>(context.whole, kWholeRank, shards[i], common)});
  }
  files.push_back({directory + "/model.safetensors.index.json",
                   std::make_shared<MadeFile>([whole = context.whole, limit, takes] {
                     return index_of(*whole, limit, takes) + "\n";
                   })});
  return files;
}

}  // namespace reshardfs
