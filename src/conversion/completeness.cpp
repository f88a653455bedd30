// SPDX-License-Identifier: Apache-2.0
#include "conversion/completeness.h"

#include <algorithm>
#include <set>
#include <string>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

std::string joined(const std::set<std::string>& names, std::size_t most) {
  std::string out;
  std::size_t shown = 0;
  for (const std::string& name : names) {
    if (shown++ == most) return out + ", ...";
    out += (out.empty() ? "" : ", ") + printable(name);
  }
  return out;
}

/// A raw slice is that of one source rank: no other can stand in.
void require_raw_slices(const TargetTable& target, const std::vector<Rank>& ranks) {
  for (const TargetParameter& parameter : target.parameters()) {
    for (const Rank rank : ranks) {
      if (!target.lacks(parameter, rank)) continue;
      const SourceRanks& source = target.source().ranks();
      const Rank wanted = source.all().first() + rank.number() % source.devices();
      throw Error(ErrorKind::kMissing, "target rank " + to_string(rank) +
                                           " needs the slice of source rank " + to_string(wanted) +
                                           " (--unmatched source), but no file contains it")
          .in_file(target.source().checkpoint().root().string())
          .for_parameter(parameter.source->name)
          .hint("bring that rank's file, or leave the parameter out with --exclude");
    }
  }
}

/// With --ranks, the user states that the shown ranks do not need the missing source ranks.
void require_known_ranks(const TargetTable& target, const std::vector<Rank>& ranks) {
  const std::vector<Rank>& unknown = target.unknown_ranks();
  const bool shows_all = static_cast<std::int64_t>(ranks.size()) == target.rank_count();
  if (unknown.empty() || !shows_all) return;
  throw Error(ErrorKind::kMissing, "source rank " + format_rank_list(unknown) +
                                       " is missing, and rules do not state which parameters the "
                                       "ranks of that pipeline stage have")
      .in_file(target.source().checkpoint().root().string())
      .hint("bring the missing files, or show with --ranks those that do not need them");
}

}  // namespace

void require_complete(const TargetTable& target, const std::vector<Rank>& ranks) {
  require_raw_slices(target, ranks);
  require_known_ranks(target, ranks);
  std::set<std::string> lacking;
  for (const Rank rank : ranks) {
    for (std::string& name : target.lost_on(rank)) lacking.insert(std::move(name));
  }
  const auto& parameters = target.parameters();
  const bool all_there =
      lacking.empty() &&
      std::all_of(parameters.begin(), parameters.end(), [](const TargetParameter& parameter) {
        return !parameter.grid || parameter.grid->complete();
      });
  if (all_there) return;

  // Only now, as it costs a walk over all cells: does a rank that is shown need what is missing?
  for (const Rank rank : ranks) {
    target.for_each_tensor(rank, [&](const TargetParameter& parameter, const ShownTensor& view) {
      view.for_each_cell([&](const Holding& holding, std::uint64_t) {
        if (!holding) lacking.insert(parameter.source->name);
      });
    });
  }
  if (lacking.empty()) return;
  const std::vector<Rank> missing = target.source().missing_ranks();
  // What a set says that it has is lost; of what a strategy has, more may be missing than there
  // ever was.
  const std::size_t most = target.source().checkpoint().catalogue() ? 200 : 8;
  const std::string what = counted(lacking.size(), "parameter") + ": " + joined(lacking, most);
  throw Error(ErrorKind::kMissing,
              missing.empty() ? "no source rank holds a part of " + what
                              : "source rank " + format_rank_list(missing) +
                                    " is missing, and no other rank holds its part of " + what)
      .in_file(target.source().checkpoint().root().string())
      .hint(
          "bring the missing files, or see 'reshardfs plan --rank N' for the source ranks that a "
          "target rank needs");
}

}  // namespace reshardfs
