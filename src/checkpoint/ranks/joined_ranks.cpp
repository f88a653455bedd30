// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/ranks/joined_ranks.h"

#include <algorithm>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/text.h"

namespace reshardfs {
namespace {

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

const TensorEntry* JoinedRanks::twin_of(const NamedExtent& joined, const RankFile& file) const {
  const auto is_twin = [&](const TensorEntry& other) {
    return other.name != joined.name && !takes(other.name) &&
           judge_rows(joined, {other.name, other.shape}) != RowsVerdict::kUnknown;
  };
  for (const std::string& name : twin_names(joined.name)) {
    const TensorEntry* twin = file.index->find(name);
    if (twin != nullptr && is_twin(*twin)) return twin;
  }
  if (!has_row_for_each_word(joined.name)) return nullptr;
  const auto& entries = file.index->entries();
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const TensorEntry& entry) {
    return has_row_for_each_word(entry.name) && is_twin(entry);
  });
  return found == entries.end() ? nullptr : &*found;
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
  const NamedExtent extent{name, joined};
  const TensorEntry* twin = twin_of(extent, file);
  const RowsVerdict rows =
      twin == nullptr ? RowsVerdict::kUnknown : judge_rows(extent, {twin->name, twin->shape});
  if (rows == RowsVerdict::kFirstIsShort) {
    throw short_error(short_words(extent, {twin->name, twin->shape}, pieces));
  }
  if (rows == RowsVerdict::kSame) {
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
  if (by_twins_) out.grounds.emplace_back("tensors with equal numbers of rows");
  if (!open_.empty()) {
    out.unstated = "whether the tensors joined from " +
                   counted(static_cast<std::size_t>(ranks_.size()), "rank") + " are whole";
  }
  return out;
}

}  // namespace reshardfs
