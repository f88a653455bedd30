// SPDX-License-Identifier: Apache-2.0
#include "view/merged/hub_shards.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/content_size.h"
#include "plan/target/target_table.h"
#include "view/files/shown_words.h"
#include "view/files/text_file.h"
#include "view/merged/weight_map.h"
#include "view/view.h"

namespace reshardfs {
namespace {

using Shard = std::vector<const TargetParameter*>;

std::uint64_t bytes_of(SliceShapes& shapes, const TargetParameter& parameter) {
  return static_cast<std::uint64_t>(
      content_size(shapes.of(parameter), parameter.dtype, "a file's size"));
}

/// In the model's order, each shard as full as it can be.
std::vector<Shard> shards_of(const TargetTable& whole, std::uint64_t limit,
                             const TakesParameter& takes) {
  std::vector<Shard> shards;
  ShardFiller filler(limit);
  SliceShapes shapes(whole, kWholeRank);
  for (const TargetParameter* parameter : arrays_of(whole, kWholeRank)) {
    if (takes && !takes(*parameter)) continue;
    if (filler.begins(bytes_of(shapes, *parameter))) shards.emplace_back();
    shards.back().push_back(parameter);
  }
  return shards;
}

std::string shard_name(std::size_t number, std::size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, count);
}

/// Sorted by name.
WeightMap index_of(const TargetTable& whole, std::uint64_t limit, const TakesParameter& takes,
                   const ShownWords& words, bool counts_only) {
  const std::vector<Shard> shards = shards_of(whole, limit, takes);
  Shard parameters;
  std::vector<std::size_t> shard_of;
  std::uint64_t total = 0;
  SliceShapes shapes(whole, kWholeRank);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const TargetParameter* parameter : shards[i]) {
      parameters.push_back(parameter);
      shard_of.push_back(i);
      total = add_or_throw(total, bytes_of(shapes, *parameter), "the model's size");
    }
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < shards.size(); ++i) names.push_back(shard_name(i, shards.size()));
  WeightMap index(total, 2, counts_only, words.index);
  for (const std::uint32_t position : whole.order_by_name(parameters)) {
    index.add(parameters[position]->name, names[shard_of[position]]);
  }
  return index;
}

}  // namespace

std::vector<OutputFile> hub_shards(const ViewContext& context, const std::string& directory,
                                   const TakesParameter& takes) {
  const std::uint64_t limit = context.options.shard_bytes;
  const std::vector<Shard> shards = shards_of(*context.whole, limit, takes);
  if (shards.empty()) return {};
  // Those libraries refuse a file whose format is not one of theirs. Texts stay in the other views.
  auto words = std::make_shared<const ShownWords>(shown_words(context, {*context.whole, takes}));
  const auto common =
      with_words(safetensors_common(context, SafetensorsKind::kOwn, "pt"), words->header);
  std::vector<OutputFile> files;
  std::shared_ptr<SafetensorsFile> before;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    auto file = std::make_shared<SafetensorsFile>(context.whole, kWholeRank, shards[i], common);
    if (before != nullptr) before->be_followed_by(file);
    files.push_back({directory + "/" + shard_name(i, shards.size()), file});
    before = std::move(file);
  }
  files.push_back({directory + "/model.safetensors.index.json",
                   std::make_shared<MadeFile>(
                       [whole = context.whole, limit, takes, words] {
                         return index_of(*whole, limit, takes, *words, false).finish() + "\n";
                       },
                       index_of(*context.whole, limit, takes, *words, true).finished_bytes() + 1)});
  return files;
}

}  // namespace reshardfs
