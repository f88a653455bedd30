// SPDX-License-Identifier: Apache-2.0
#include "plan/replicas/step_counters.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/process/parallel.h"
#include "plan/replicas/replica_check.h"

namespace reshardfs {
namespace {

constexpr std::array<std::string_view, 3> kCounters{"global_step", "step_num", "epoch_num"};
/// One number.
constexpr std::uint64_t kMostBytes = 16;

}  // namespace

bool is_step_counter(std::string_view name) noexcept {
  return std::find(kCounters.begin(), kCounters.end(), name) != kCounters.end();
}

std::optional<std::pair<Holding, Holding>> differing_counters(std::span<const Holding> holdings) {
  if (holdings.size() < 2 || holdings.front().entry->content_bytes > kMostBytes) {
    return std::nullopt;
  }
  std::vector<char> differs(holdings.size(), 0);
  parallel_for(holdings.size() - 1, [&](std::size_t i) {
    differs[i + 1] = content_equal(holdings.front(), holdings[i + 1]) ? 0 : 1;
  });
  const auto found = std::find(differs.begin(), differs.end(), 1);
  if (found == differs.end()) return std::nullopt;
  return std::pair(holdings.front(), holdings[static_cast<std::size_t>(found - differs.begin())]);
}

Error of_two_saves(const std::string& name, const std::pair<Holding, Holding>& differing) {
  return Error(ErrorKind::kBadInput, "has another value than in " +
                                         printable(differing.first.file->path.string()) +
                                         ": these files are of two saves")
      .in_file(differing.second.file->path.string())
      .for_parameter(name)
      .hint("bring the files of one save; --replicas first takes the lowest rank's value");
}

namespace {

/// Of a table of stored names: whether any file has it. Its own search sorts all names first.
bool may_have(const SourceTable& table, std::string_view name) {
  const std::vector<RankFile>& files = table.checkpoint().files();
  return !table.has_stored_names() ||
         std::any_of(files.begin(), files.end(),
                     [&](const RankFile& file) { return file.index->find(name) != nullptr; });
}

}  // namespace

void require_one_step(const SourceTable& table, const NameTaker& takes) {
  for (const std::string_view counter : kCounters) {
    const SourceParameter* const parameter =
        may_have(table, counter) ? table.find(counter) : nullptr;
    if (parameter == nullptr || (takes && !takes(parameter->name))) continue;
    std::vector<Holding> holdings;
    for (const Holding& holding : parameter->holders) holdings.push_back(holding);
    const auto differing = differing_counters(holdings);
    if (differing) throw of_two_saves(parameter->name, *differing);
  }
}

}  // namespace reshardfs
