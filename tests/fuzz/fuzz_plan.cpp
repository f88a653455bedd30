// SPDX-License-Identifier: Apache-2.0
/// Random layouts on both sides, and random reads, judged by the naive model.
#include <span>

#include "fuzz/fuzzing.h"
#include "layout/slicing.h"
#include "naive.h"
#include "plan/source/source_table.h"
#include "plan/target/target_table.h"
#include "support/checkpoint.h"
#include "support/wire.h"

using namespace reshardfs;

namespace {

constexpr std::int64_t kMostElements = 4096;

struct Side {
  naive::Layout model;
  Layout layout;
};

/// Up to three axes, each of which cuts one dimension or none.
Side random_side(fuzz::Numbers& input, std::size_t dimensions) {
  Side side;
  const auto axes = static_cast<std::size_t>(input.pick(1, 3));
  side.model.tensor_map.resize(dimensions);
  for (std::size_t i = 0; i < axes; ++i) side.model.device_matrix.push_back(input.pick(1, 4));
  for (std::size_t i = 0; i < axes; ++i) {
    const auto dimension = static_cast<std::size_t>(input.pick(0, static_cast<int>(dimensions)));
    if (dimension == dimensions) continue;
    auto& cut = side.model.tensor_map[dimension];
    cut.insert(input.one_in(2) ? cut.begin() : cut.end(), static_cast<int>(i));
  }
  if (input.one_in(4)) side.model.optimizer_size = input.pick(-1, 4);
  if (input.one_in(6)) side.model.fields = input.pick(1, 3);
  side.layout.device_matrix = side.model.device_matrix;
  side.layout.tensor_map = side.model.tensor_map;
  side.layout.optimizer_shard_size = side.model.optimizer_size;
  if (side.model.fields > 1) side.layout.field = side.model.fields;
  return side;
}

/// Cuts one dimension into parts of the lengths that the input gives.
void cut_unevenly(fuzz::Numbers& input, Side& side, const naive::Numbers& shape) {
  if (shape.empty() || !input.one_in(3) || side.model.fields > 1) return;
  const auto d = static_cast<std::size_t>(input.pick(0, static_cast<int>(shape.size()) - 1));
  const std::int64_t parts = naive::parts(side.model)[d];
  if (parts == 1 || parts > shape[d] || (d == 0 && side.model.optimizer_size != 0)) return;
  naive::Split split;
  split.balanced = input.one_in(2);
  if (!split.balanced) {
    std::int64_t left = shape[d];
    for (std::int64_t part = parts; part > 1; --part) {
      split.lengths.push_back(input.pick(1, left - part + 1));
      left -= split.lengths.back();
    }
    split.lengths.push_back(left);
  }
  side.model.splits.resize(shape.size());
  side.layout.uneven.resize(shape.size());
  side.model.splits[d] = split;
  side.layout.uneven[d] = {.balanced = split.balanced, .lengths = split.lengths};
}

std::shared_ptr<const CheckpointSet> source_set(const Side& side, const std::string& full,
                                                const naive::Numbers& shape) {
  std::map<std::int64_t, std::string> records;
  for (std::int64_t rank = 0; rank < naive::device_count(side.model); ++rank) {
    const naive::Held held = naive::held_by(shape, side.model, rank);
    records[rank] = test::record("w", naive::shape_of(held), "Int16",
                                 naive::slice(full, shape, sizeof(std::int16_t), held));
  }
  return test::memory_set(records);
}

void check_rank(fuzz::Numbers& input, const TargetTable& target, Rank rank,
                const std::string& expected) {
  const ShownTensor view = target.view(target.parameters().front(), rank);
  fuzz::require(view.size() == expected.size(), "a slice of another size");
  for (int i = 0; i < 3; ++i) {
    const auto size = static_cast<std::int64_t>(expected.size());
    const std::int64_t begin = i == 0 ? 0 : input.pick(0, size);
    const std::int64_t length = i == 0 ? size : input.pick(0, size - begin);
    std::string found(static_cast<std::size_t>(length), '\x55');
    ReadBatch batch;
    view.read(static_cast<std::uint64_t>(begin), std::as_writable_bytes(std::span(found)), batch);
    fuzz::require(found == expected.substr(static_cast<std::size_t>(begin), found.size()),
                  "other bytes than the model's");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Numbers input(data, size);
  const auto dimensions = static_cast<std::size_t>(input.pick(1, 3));
  Side src = random_side(input, dimensions);
  Side dst = random_side(input, dimensions);
  naive::Numbers shape;
  const naive::Numbers src_parts = naive::parts(src.model);
  const naive::Numbers dst_parts = naive::parts(dst.model);
  for (std::size_t d = 0; d < dimensions; ++d) {
    std::int64_t length = src_parts[d] * dst_parts[d] * input.pick(1, 2);
    if (d == 0) length *= naive::units(src.model)[0] * naive::units(dst.model)[0];
    if (input.one_in(8)) ++length;
    shape.push_back(length);
  }
  if (naive::product(shape) > kMostElements) return 0;
  cut_unevenly(input, src, shape);
  cut_unevenly(input, dst, shape);
  // The model takes what the layout engine refuses; so the engine is asked first.
  const bool fits = fuzz::may_refuse([&] {
    for (const Layout* layout : {&src.layout, &dst.layout})
      static_cast<void>(Slicing(*layout, shape));
  });
  if (!fits) return 0;
  std::string full(static_cast<std::size_t>(naive::product(shape)) * sizeof(std::int16_t), '\0');
  for (std::size_t i = 0; i < full.size(); ++i) full[i] = static_cast<char>(i * 7 + i / 251);
  const auto strategy = [](const Side& side) {
    return Strategy({StageLayouts{{"w", side.layout}}}, 0, false);
  };
  const auto refused = fuzz::refusal([&] {
    const auto source =
        std::make_shared<const SourceTable>(source_set(src, full, shape), strategy(src));
    const TargetTable target(source, strategy(dst), TargetOptions{});
    for (const Rank rank : RankRange(Rank(), target.rank_count())) {
      const naive::Held held = naive::held_by(shape, dst.model, rank.number());
      check_rank(input, target, rank, naive::slice(full, shape, sizeof(std::int16_t), held));
    }
  });
  if (refused) fuzz::fail("a set that fits both layouts was refused: " + *refused);
  return 0;
}
