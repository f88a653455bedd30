// SPDX-License-Identifier: Apache-2.0
#include "check/coverage.h"

#include "reshardfs/error.h"

#include "base/rank_list.h"

namespace reshardfs {

AbsentRanks::AbsentRanks(const std::vector<Rank>& ranks) {
  for (const Rank rank : ranks) losses_.try_emplace(rank);
}

void AbsentRanks::lose(const std::vector<Rank>& ranks, const std::string& parameter,
                       std::size_t number) {
  const std::scoped_lock lock(mutex_);
  for (const Rank rank : ranks) {
    const auto found = losses_.find(rank);
    if (found == losses_.end()) continue;
    Loss& loss = found->second;
    if (loss.parameters++ == 0 || number < loss.first_number) {
      loss.first_number = number;
      loss.first = parameter;
    }
  }
}

void AbsentRanks::report_to(VerifyReport& report) const {
  const std::scoped_lock lock(mutex_);
  std::vector<Rank> spared;
  for (const auto& [rank, loss] : losses_) {
    if (loss.parameters == 0) {
      spared.push_back(rank);
      continue;
    }
    Problem problem;
    problem.kind = ProblemKind::kMissingRank;
    problem.rank = rank;
    problem.parameter = loss.first;
    problem.message =
        loss.parameters == 1
            ? "no file that can be read, and no other rank holds its part"
            : "no file that can be read, and no other rank holds its part of this and " +
                  std::to_string(loss.parameters - 1) + " other parameters";
    report.problems.push_back(std::move(problem));
  }
  if (spared.empty()) return;
  report.warnings.push_back(rank_words(spared) +
                            ": no file that can be read; other ranks hold all of the slices");
}

}  // namespace reshardfs
