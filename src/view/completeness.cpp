// SPDX-License-Identifier: Apache-2.0
#include "view/completeness.h"

#include <algorithm>
#include <set>
#include <string>

#include "reshardfs/error.h"

#include "base/rank_list.h"

namespace reshardfs {
namespace {

std::vector<std::int64_t> missing_ranks(const SourceTable& source) {
  std::vector<std::int64_t> missing;
  const std::int64_t count = source.stage_count() * source.stage_devices();
  for (std::int64_t rank = source.base_rank(); rank < source.base_rank() + count; ++rank) {
    if (source.checkpoint().find(rank) == nullptr) missing.push_back(rank);
  }
  return missing;
}

std::string joined(const std::set<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string out;
  std::size_t shown = 0;
  for (const std::string& name : names) {
    if (shown++ == kShown) return out + ", ...";
    out += (out.empty() ? "" : ", ") + printable(name);
  }
  return out;
}

/// A raw slice is that of one source rank: no other can stand in.
void require_raw_slices(const TargetTable& target, const std::vector<std::int64_t>& ranks) {
  for (const TargetParameter& parameter : target.parameters()) {
    for (const std::int64_t rank : ranks) {
      if (!target.lacks(parameter, rank)) continue;
      const std::int64_t local = rank % target.source().stage_devices();
      throw Error(ErrorKind::kMissing, "destination rank " + std::to_string(rank) +
                                           " is to get the slice of source rank " +
                                           std::to_string(target.source().base_rank() + local) +
                                           " (--unmatched source), which no file there holds")
          .in_file(target.source().checkpoint().files().front().path.parent_path().parent_path())
          .for_parameter(parameter.source->name)
          .hint("bring that rank's file, or leave the parameter out with --exclude");
    }
  }
}

}  // namespace

void require_complete(const TargetTable& target, const std::vector<std::int64_t>& ranks) {
  require_raw_slices(target, ranks);
  const auto& parameters = target.parameters();
  const bool all_there =
      std::all_of(parameters.begin(), parameters.end(), [](const TargetParameter& parameter) {
        return !parameter.grid || parameter.grid->complete();
      });
  if (all_there) return;

  // Only now, as it costs a walk over all cells: does a rank that is shown need what is missing?
  std::set<std::string> lacking;
  for (const std::int64_t rank : ranks) {
    target.for_each_tensor(rank, [&](const TargetParameter& parameter, const TensorView& view) {
      view.for_each_cell([&](const Holding& holding, std::uint64_t) {
        if (!holding) lacking.insert(parameter.source->name);
      });
    });
  }
  if (lacking.empty()) return;
  const std::vector<std::int64_t> missing = missing_ranks(target.source());
  const std::string what = std::to_string(lacking.size()) +
                           (lacking.size() == 1 ? " parameter: " : " parameters: ") +
                           joined(lacking);
  throw Error(ErrorKind::kMissing,
              missing.empty() ? "no source rank holds a part of " + what
                              : "source rank " + format_rank_list(missing) +
                                    " is missing, and no other rank holds its part of " + what)
      .in_file(target.source().checkpoint().files().front().path.parent_path().parent_path())
      .hint(
          "bring the missing files, or see 'reshardfs plan --rank N' for the source ranks that a "
          "destination rank needs");
}

}  // namespace reshardfs
