// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/joined_ranks.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/state_names.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

/// Whether both have the same shape but for the rows.
bool are_alike(const Shape& a, const Shape& b) {
  return !a.empty() && a.size() == b.size() && std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

RankRange joined_range(const CheckpointSet& checkpoint) {
  const Rank last = checkpoint.files().back().rank;
  const bool counted = checkpoint.completeness().counted;
  const Rank first = counted ? checkpoint.files().front().rank : Rank();
  return {first, last - first + 1};
}

}  // namespace

JoinedRanks::JoinedRanks(const CheckpointSet& checkpoint, NameGlobs join)
    : checkpoint_(checkpoint), join_(std::move(join)), ranks_(joined_range(checkpoint)) {}

/// Read for the first parameter, and not at all if there is none.
const ModelShapes& JoinedRanks::config() {
  if (!config_) config_ = ModelShapes::read(checkpoint_.completeness().config, nullptr);
  return *config_;
}

std::optional<JoinedRanks::Twin> JoinedRanks::twin_of(const std::string& name, const Shape& joined,
                                                      const RankFile& file) const {
  const auto whole = [&](const std::string& other) -> const TensorEntry* {
    return other == name || takes(other) ? nullptr : file.index->find(other);
  };
  constexpr std::string_view kWeight = ".weight";
  if (name.ends_with(kWeight)) {
    const TensorEntry* bias = whole(name.substr(0, name.size() - kWeight.size()) + ".bias");
    const bool has_rows =
        bias != nullptr && bias->shape.size() == 1 &&
        std::find(joined.begin() + 1, joined.end(), bias->shape[0]) == joined.end();
    if (has_rows) return Twin{bias->name, bias->shape[0]};
  }
  const TensorEntry* weight = whole(weight_name_of(name));
  if (weight != nullptr && are_alike(weight->shape, joined)) {
    return Twin{weight->name, weight->shape[0]};
  }
  if (!has_row_for_each_word(name)) return std::nullopt;
  for (const TensorEntry& entry : file.index->entries()) {
    const bool is_twin = entry.name != name && has_row_for_each_word(entry.name) &&
                         !takes(entry.name) && are_alike(entry.shape, joined);
    if (is_twin) return Twin{entry.name, entry.shape[0]};
  }
  return std::nullopt;
}

void JoinedRanks::add(const std::string& name, const Shape& joined, const RankFile& file) {
  if (checkpoint_.completeness().counted || joined.empty()) return;
  const auto short_error = [&](std::string what) {
    return Error(ErrorKind::kMissing, std::move(what))
        .for_parameter(name)
        .hint("bring the files of the last ranks, which are missing");
  };
  const std::string pieces = counted(static_cast<std::size_t>(ranks_.size()), "rank");
  const std::scoped_lock lock(mutex_);
  const auto stated = config().find(name);
  switch (judge_extent(joined, stated)) {
    case ShapeVerdict::kFits:
      by_config_ = true;
      return;
    case ShapeVerdict::kShort:
      throw short_error(short_words(joined, *stated, pieces));
    case ShapeVerdict::kUnknown:
      break;
  }
  const auto twin = twin_of(name, joined, file);
  if (twin && twin->rows > joined[0]) {
    throw short_error("has " + std::to_string(joined[0]) + " rows in " + pieces + ", but '" +
                      printable(twin->name) + "' has " + std::to_string(twin->rows));
  }
  if (twin && twin->rows == joined[0]) {
    by_twins_ = true;
  } else {
    open_.emplace(name, joined);
  }
}

Completeness JoinedRanks::statement() const {
  const std::scoped_lock lock(mutex_);
  Completeness out;
  for (const auto& [name, shape] : open_) out.open_extents.push_back({name, shape});
  if (by_config_) out.grounds.emplace_back("config.json");
  if (by_twins_) out.grounds.emplace_back("tensors of as many rows");
  if (!open_.empty()) {
    out.unstated = "whether the tensors joined from " +
                   counted(static_cast<std::size_t>(ranks_.size()), "rank") + " are whole";
  }
  return out;
}

}  // namespace reshardfs
