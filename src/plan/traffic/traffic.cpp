// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/traffic.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "checkpoint/deepspeed/joined_source.h"
#include "plan/reading/content.h"
#include "plan/reading/source_sinks.h"

namespace reshardfs {

std::vector<Rank> needed_ranks(const TargetTable& target, Rank rank) {
  std::set<Rank> ranks;
  target.for_each_tensor(rank, [&](const TargetParameter&, const ShownTensor& view) {
    view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
      if (holding && bytes > 0) ranks.insert(holding.file->rank);
    });
  });
  return {ranks.begin(), ranks.end()};
}

/// The name that the files have; that of a map's tensor is its own.
const std::string& name_in_order(const SourceTable& source, const SourceParameter& parameter) {
  const bool is_mapped = source.mapped_from() != nullptr;
  return is_mapped ? parameter.name : parameter.holders.front().entry->name;
}

std::vector<const TargetParameter*> in_file_order(const TargetTable& target, Rank rank) {
  const SourceTable& source = target.source();
  std::unordered_map<std::string_view, std::size_t> place;  // name to its number in the file
  // The files do not have the names that a map shows; the map says the order.
  std::vector<Rank> ranks;
  if (source.mapped_from() == nullptr) ranks = needed_ranks(target, rank);
  std::reverse(ranks.begin(), ranks.end());
  std::unordered_set<const void*> walked;
  for (const Rank needed : ranks) {
    for (const RankFile& file : source.checkpoint().files_of(needed)) {
      // Ranks of one stage list the same names: walking them again would add nothing.
      if (!walked.insert(file.index->name_order()).second) continue;
      for (const TensorEntry& entry : file.index->entries()) {
        place.try_emplace(entry.name, place.size());
      }
    }
  }
  // Tensors without a byte may be in none of those files; they come last, in the source's order.
  for (const SourceParameter& parameter : source.parameters()) {
    place.try_emplace(name_in_order(source, parameter), place.size());
  }
  struct Placed {
    std::pair<bool, std::size_t> key;
    const TargetParameter* parameter;
  };
  std::vector<Placed> placed;
  for (const TargetParameter& parameter : target.parameters()) {
    if (!target.has(parameter, rank)) continue;
    const bool other = parameter.treatment != Treatment::kReshard;
    placed.push_back({{other, place.at(name_in_order(source, *parameter.source))}, &parameter});
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.key < b.key; });
  std::vector<const TargetParameter*> order;
  order.reserve(placed.size());
  for (const Placed& item : placed) order.push_back(item.parameter);
  return order;
}

namespace {

/// Parameters with one such key take equally many bytes from the same files.
using Kind = std::tuple<const CellPattern*, const Slicing*, DType>;

Kind kind_of(const TargetParameter& parameter, std::size_t stage) {
  const Slicing* const cut =
      parameter.treatment == Treatment::kReshard ? parameter.cuts()[stage].get() : nullptr;
  return {&parameter.grid->pattern(), cut, parameter.source->dtype};
}

/// The source of a tensor whose bytes are in several files; nullptr: it is in one.
const JoinedSource* joined_source_of(const RankFile& file) {
  return dynamic_cast<const JoinedSource*>(file.source.get());
}

/// Files in the order of their ranks, and of their parts within a rank.
class Traffic final : public SourceSink {
 public:
  void add(const ShownTensor& view, std::uint64_t times) {
    view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
      if (!holding || bytes == 0 || joined_source_of(*holding.file) != nullptr) return;
      count(*holding.file, holding.file->path.string(), bytes * times);
    });
  }

  /// Counts what is in several files, range by range.
  void add_joined(const ShownTensor& view) {
    view.for_each_use(ByteRange::whole(view.size()), *this);
  }

  void take(const Holding& holding, const StridedRanges& ranges) override {
    const JoinedSource* const joined = joined_source_of(*holding.file);
    if (joined == nullptr) return;
    std::vector<ByteRange> stored;
    for (std::uint64_t i = 0; i < ranges.count(); ++i) {
      stored.clear();
      add_stored_ranges(*holding.entry, ByteRange(ranges.offset_of(i), ranges.length()), stored);
      for (const ByteRange& range : stored) {
        joined->for_each_file(range, [&](const ByteSource& file, std::uint64_t bytes) {
          count(*holding.file, file.name(), bytes);
        });
      }
    }
  }
  void take(const ByteSource& /*source*/, const ByteRange& /*range*/) override {}

  std::vector<SourceTraffic> list() const {
    std::vector<SourceTraffic> list;
    list.reserve(by_file_.size());
    for (const auto& [place, bytes] : by_file_) {
      list.push_back({std::get<Rank>(place), std::get<std::string>(place), bytes});
    }
    return list;
  }

 private:
  void count(const RankFile& file, const std::string& path, std::uint64_t bytes) {
    if (bytes > 0) by_file_[{file.rank, file.part, path}] += bytes;
  }

  std::map<std::tuple<Rank, std::int64_t, std::string>, std::uint64_t> by_file_;
};

bool has_joined_files(const CheckpointSet& set) {
  return std::any_of(set.files().begin(), set.files().end(),
                     [](const RankFile& file) { return joined_source_of(file) != nullptr; });
}

}  // namespace

std::vector<SourceTraffic> traffic_of(const TargetTable& target, Rank rank) {
  Traffic traffic;
  // By kind, the first parameter and how many there are.
  std::map<Kind, std::pair<const TargetParameter*, std::uint64_t>> kinds;
  const std::size_t stage = target.stage_of(rank);
  const bool has_joined = has_joined_files(target.source().checkpoint());
  for (const TargetParameter& parameter : target.parameters()) {
    if (!target.has(parameter, rank)) continue;
    if (has_joined) traffic.add_joined(target.view(parameter, rank));
    // Under Replicas::kOwn each rank reads files of its own, whatever the grid says.
    if (!parameter.grid || target.has_own_values()) {
      traffic.add(target.view(parameter, rank), 1);
      continue;
    }
    auto& [first, count] = kinds[kind_of(parameter, stage)];
    if (count++ == 0) first = &parameter;
  }
  for (const auto& [kind, alike] : kinds) {
    traffic.add(target.view(*alike.first, rank), alike.second);
  }
  return traffic.list();
}

}  // namespace reshardfs
