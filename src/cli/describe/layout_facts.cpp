// SPDX-License-Identifier: Apache-2.0
#include "cli/describe/layout_facts.h"

#include <algorithm>
#include <map>
#include <memory_resource>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/text/state_names.h"

namespace reshardfs {
namespace {

/// An axis of a device matrix, whatever other axes there are.
struct Axis {
  std::int64_t size = 1;
  std::int64_t stride = 1;  ///< devices from one part to the next
  auto operator<=>(const Axis&) const = default;
};

Axis axis_of(const Layout& layout, int from_end) {
  const auto& matrix = layout.device_matrix;
  const std::size_t at = matrix.size() - 1 - static_cast<std::size_t>(from_end);
  Axis axis{matrix[at], 1};
  for (std::size_t i = at + 1; i < matrix.size(); ++i) axis.stride *= matrix[i];
  return axis;
}

/// The names of one file; equal lists are equal numbers.
class NameLists {
 public:
  std::size_t number_of(const FileIndex& index) {
    const auto [known, is_new] = by_order_.try_emplace(index.name_order(), lists_.size());
    if (!is_new) return known->second;
    const auto same = std::find_if(lists_.begin(), lists_.end(), [&](const FileIndex* other) {
      return has_names_of(*other, index);
    });
    known->second = static_cast<std::size_t>(same - lists_.begin());
    if (same == lists_.end()) lists_.push_back(&index);
    return known->second;
  }

 private:
  static bool has_names_of(const FileIndex& one, const FileIndex& other) {
    const auto& entries = other.entries();
    return entries.size() == one.entries().size() &&
           std::all_of(entries.begin(), entries.end(),
                       [&](const TensorEntry& entry) { return one.find(entry.name) != nullptr; });
  }

  std::unordered_map<const void*, std::size_t> by_order_;
  std::vector<const FileIndex*> lists_;  ///< one of each number
};

}  // namespace

LayoutFacts cuts_of(const std::vector<const Layout*>& layouts, std::int64_t devices) {
  LayoutFacts facts;
  std::set<Axis> axes;
  bool cuts_rows = false;
  bool cuts_columns = false;
  bool cuts_twice = false;
  for (const Layout* layout : layouts) {
    std::int64_t slices = 1;
    std::size_t cut_over = 0;
    for (std::size_t d = 0; d < layout->tensor_map.size(); ++d) {
      for (const int from_end : layout->tensor_map[d]) {
        const Axis axis = axis_of(*layout, from_end);
        if (axis.size == 1) continue;
        slices *= axis.size;
        axes.insert(axis);
        ++cut_over;
        (d == 0 ? cuts_rows : cuts_columns) = true;
      }
    }
    cuts_twice = cuts_twice || cut_over > 1;
    facts.optimizer_cut = facts.optimizer_cut || layout->optimizer_shard_size != 0;
    facts.most_slices = std::max(facts.most_slices, slices);
  }
  if (axes.size() == 1 && cuts_rows && cuts_columns && !cuts_twice) {
    facts.tp = axes.begin()->size;
    facts.dp = devices / *facts.tp;
  }
  return facts;
}

LayoutFacts stated_layout(const SourceTable& table) {
  const SourceTable& source = table.unmapped();
  if (!source.states_layouts() || source.catalogue().has_boxes()) return {};
  std::set<const Layout*> layouts;
  for (const SourceParameter& parameter : source.parameters()) {
    if (is_training_state(parameter.name)) continue;
    for (const Layout* layout : source.catalogue().layouts_of(parameter.name)) {
      layouts.insert(layout);
    }
  }
  if (layouts.empty()) return {};
  const SourceRanks& ranks = source.ranks();
  LayoutFacts facts = cuts_of({layouts.begin(), layouts.end()}, ranks.devices());
  facts.stages = ranks.stages();
  facts.devices = ranks.devices();
  return facts;
}

std::optional<std::int64_t> stages_by_names(const std::vector<std::size_t>& groups) {
  std::vector<std::size_t> order;
  std::vector<std::size_t> lengths;
  for (const std::size_t group : groups) {
    if (!order.empty() && order.back() == group) {
      ++lengths.back();
      continue;
    }
    if (std::find(order.begin(), order.end(), group) != order.end()) return std::nullopt;
    order.push_back(group);
    lengths.push_back(1);
  }
  const bool are_equal =
      std::adjacent_find(lengths.begin(), lengths.end(), std::not_equal_to<>()) == lengths.end();
  if (order.size() < 2 || !are_equal) return std::nullopt;
  return static_cast<std::int64_t>(order.size());
}

RankNames rank_names(const CheckpointSet& set) {
  RankNames result;
  result.held.state_prefixes = set.state_prefixes();
  NameLists lists;
  std::map<std::vector<std::size_t>, std::size_t> numbers;
  std::set<std::pair<std::size_t, std::size_t>> known_lists;        // of each group
  std::vector<std::pair<std::size_t, const FileIndex*>> all_lists;  // the same, in order
  for (auto file = set.files().begin(); file != set.files().end();) {
    const Rank rank = file->rank;
    const auto end = std::find_if(file, set.files().end(),
                                  [&](const RankFile& other) { return other.rank != rank; });
    std::vector<std::size_t> of_rank;
    for (auto part = file; part != end; ++part) of_rank.push_back(lists.number_of(*part->index));
    const std::size_t group = numbers.try_emplace(of_rank, numbers.size()).first->second;
    result.ranks.push_back(rank);
    result.groups.push_back(group);
    for (std::size_t i = 0; file != end; ++file, ++i) {
      if (known_lists.emplace(group, of_rank[i]).second) {
        all_lists.emplace_back(group, file->index.get());
      }
    }
  }
  const bool has_groups = numbers.size() > 1;
  const bool shares_names = result.ranks.size() > 1 ||
                            std::any_of(all_lists.begin(), all_lists.end(),
                                        [](const auto& list) { return list.second->has_boxes(); });
  if (!shares_names) {
    for (const auto& [group, index] : all_lists) {
      for (const TensorEntry& entry : index->entries()) result.held.names.push_back(entry.name);
    }
    return result;
  }
  std::pmr::monotonic_buffer_resource memory;
  std::pmr::unordered_map<std::string_view, std::size_t> known(&memory);
  for (const auto& [group, index] : all_lists) {
    for (const TensorEntry& entry : index->entries()) {
      const auto [found, is_new] = known.try_emplace(entry.name, result.held.names.size());
      if (is_new) result.held.names.push_back(entry.name);
      if (!has_groups) continue;
      result.held.groups.resize(result.held.names.size());
      result.held.groups[found->second].insert(group);
    }
  }
  return result;
}

}  // namespace reshardfs
