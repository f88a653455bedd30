// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/saving_process.h"

#include <algorithm>
#include <map>

#include "reshardfs/error.h"

#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr const char* kFromOneSave = "bring the files of all ranks from one save";

/// Empty: the process fits its place.
std::string misplaced(const SavingProcess& process, const MegatronSizes& sizes) {
  const std::int64_t tensor = *process.number % sizes.tensor;
  if (tensor != process.rank.tensor) return "the tensor rank " + std::to_string(tensor);
  const std::int64_t expert = *process.number / sizes.expert_tensor % sizes.expert;
  if (expert != process.rank.expert) return "the expert rank " + std::to_string(expert);
  return {};
}

}  // namespace

bool require_places(const std::vector<SavingProcess>& processes, const MegatronSizes& sizes) {
  if (processes.size() < 2) return true;
  const auto is_unknown = [](const SavingProcess& process) {
    return !process.number || *process.number < 0;
  };
  const auto is_first = [&](const SavingProcess& process) {
    return process.number == processes.front().number;
  };
  if (std::any_of(processes.begin(), processes.end(), is_unknown) ||
      std::all_of(processes.begin(), processes.end(), is_first)) {
    return false;
  }
  std::map<std::int64_t, const SavingProcess*> by_number;
  std::map<MegatronRank, const SavingProcess*> by_rank;
  for (const SavingProcess& process : processes) {
    const auto [known, is_new] = by_number.emplace(*process.number, &process);
    by_rank.emplace(process.rank, &process);
    if (is_new) continue;
    throw Error(ErrorKind::kBadInput,
                "'" + printable(known->second->directory) + "' and '" +
                    printable(process.directory) + "' were both saved by process " +
                    std::to_string(*process.number) + ": one is a copy of the other")
        .hint(kFromOneSave);
  }
  for (const SavingProcess& process : processes) {
    std::string has = misplaced(process, sizes);
    const auto before =
        by_rank.find({process.rank.tensor, process.rank.stage - 1, process.rank.expert});
    if (has.empty() && before != by_rank.end() && *before->second->number > *process.number) {
      has = "an earlier pipeline stage";
    }
    if (has.empty()) continue;
    throw Error(ErrorKind::kBadInput, "'" + printable(process.directory) +
                                          "' was saved by process " +
                                          std::to_string(*process.number) + ", which has " + has +
                                          ": directories were exchanged")
        .hint(kFromOneSave);
  }
  return true;
}

}  // namespace reshardfs
