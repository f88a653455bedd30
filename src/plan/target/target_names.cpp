// SPDX-License-Identifier: Apache-2.0
/// The names of a target: that each stands once, and their order.
#include <algorithm>
#include <span>
#include <string_view>

#include "reshardfs/error.h"

#include "base/text/name_order.h"
#include "base/text/text.h"
#include "plan/target/target_table.h"

namespace reshardfs {
namespace {

/// The order by name: that of the first file if it has exactly these parameters, or a new one.
std::vector<std::uint32_t> names_order(const std::vector<TargetParameter>& parameters,
                                       const std::vector<RankFile>& files) {
  const auto has_all = [&](const FileIndex& file) {
    const std::vector<TensorEntry>& entries = file.entries();
    return std::equal(parameters.begin(), parameters.end(), entries.begin(), entries.end(),
                      [](const TargetParameter& parameter, const TensorEntry& entry) {
                        return &parameter.name == &entry.name;
                      });
  };
  if (!files.empty() && has_all(*files.front().index)) {
    const std::span<const std::uint32_t> order = files.front().index->order_by_name();
    return {order.begin(), order.end()};
  }
  return order_by_name(parameters.size(),
                       [&](std::size_t i) { return std::string_view(parameters[i].name); });
}

}  // namespace

/// @throws Error kBadInput if a name stands twice.
void TargetTable::require_distinct_names() const {
  const bool has_names_of_files =
      source_->has_stored_names() &&
      std::all_of(parameters_.begin(), parameters_.end(), [](const TargetParameter& parameter) {
        return &parameter.name == &parameter.source->name;
      });
  if (has_names_of_files) return;  // which stand once in the source's table
  std::vector<std::string_view> names;
  names.reserve(parameters_.size());
  for (const TargetParameter& parameter : parameters_) names.emplace_back(parameter.name);
  if (are_distinct(names)) return;
  const std::vector<std::uint32_t> order = order_of_names(names);
  std::optional<std::pair<std::uint32_t, std::uint32_t>> twice;  // the first in the table's order
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (names[order[i - 1]] != names[order[i]]) continue;
    if (!twice || order[i] < twice->second) twice = {order[i - 1], order[i]};
  }
  const TargetParameter& first = parameters_[twice->first];
  const TargetParameter& second = parameters_[twice->second];
  throw Error(ErrorKind::kBadInput, "'" + printable(first.source->name) + "' and '" +
                                        printable(second.source->name) +
                                        "' would both get this name")
      .for_parameter(second.name)
      .hint("correct --name-map, or --exclude one of them");
}

std::vector<std::uint32_t> TargetTable::order_by_name(
    std::span<const TargetParameter* const> list) const {
  sorted_.call([this] {
    const std::vector<std::uint32_t> order =
        names_order(parameters_, source_->checkpoint().files());
    name_ranks_.resize(order.size());
    for (std::uint32_t rank = 0; rank < order.size(); ++rank) name_ranks_[order[rank]] = rank;
  });
  std::vector<std::uint64_t> keys(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto position = static_cast<std::size_t>(list[i] - parameters_.data());
    keys[i] = std::uint64_t{name_ranks_[position]} << 32U | i;
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::uint32_t> order(keys.size());
  std::transform(keys.begin(), keys.end(), order.begin(),
                 [](std::uint64_t key) { return static_cast<std::uint32_t>(key); });
  return order;
}

}  // namespace reshardfs
