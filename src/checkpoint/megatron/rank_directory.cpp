// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/megatron/rank_directory.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "reshardfs/error.h"

#include "base/text/numbers.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr std::string_view kMpRank = "mp_rank";
constexpr std::size_t kTensorDigits = 2;
constexpr std::size_t kOtherDigits = 3;
constexpr std::size_t kMostNumbers = 3;

std::string with_zeros(std::int64_t number, std::size_t digits) {
  std::string text = std::to_string(number);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return "_" + text;
}

std::string spelled(const std::vector<std::int64_t>& numbers) {
  std::string name(kMpRank);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    name += with_zeros(numbers[i], i == 0 ? kTensorDigits : kOtherDigits);
  }
  return name;
}

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

std::optional<std::vector<std::int64_t>> parse_mp_rank(std::string_view name) {
  if (!name.starts_with(kMpRank)) return std::nullopt;
  std::string_view rest = name.substr(kMpRank.size());
  std::vector<std::int64_t> numbers;
  while (!rest.empty()) {
    if (rest.front() != '_') return std::nullopt;
    rest.remove_prefix(1);
    const auto number = take_number<std::int64_t>(rest);
    if (!number || numbers.size() == kMostNumbers) return std::nullopt;
    numbers.push_back(*number);
  }
  // Another spelling would be a second name of one rank.
  if (numbers.empty() || spelled(numbers) != name) return std::nullopt;
  return numbers;
}

std::string mp_rank_name(const MegatronRank& rank, const MegatronSizes& sizes) {
  std::vector<std::int64_t> numbers{rank.tensor};
  if (sizes.pipeline > 1) numbers.push_back(rank.stage);
  if (sizes.expert > 1) numbers.push_back(rank.expert);
  return spelled(numbers);
}

Known<MegatronRank> megatron_rank(const std::vector<std::int64_t>& numbers,
                                  const MegatronSizes& sizes) {
  MegatronRank rank;
  std::size_t used = 0;
  const auto take = [&](std::int64_t& number, std::int64_t size, bool named) {
    if (!named) return true;
    if (used == numbers.size()) return false;
    number = numbers[used++];
    return number < size;
  };
  const bool fits = take(rank.tensor, sizes.tensor, true) &&
                    take(rank.stage, sizes.pipeline, sizes.pipeline > 1) &&
                    take(rank.expert, sizes.expert, sizes.expert > 1) && used == numbers.size();
  if (fits) return Known<MegatronRank>::derived(rank, "its name");
  return Known<MegatronRank>::unknown("does not fit tensor parallelism of " +
                                      std::to_string(sizes.tensor) + ", pipeline parallelism of " +
                                      std::to_string(sizes.pipeline) +
                                      " and expert parallelism of " + std::to_string(sizes.expert));
}

std::vector<MegatronRank> saving_ranks(const MegatronSizes& sizes) {
  const std::int64_t step =
      sizes.expert_tensor == sizes.tensor ? 1 : std::gcd(sizes.tensor, sizes.expert);
  std::vector<MegatronRank> ranks;
  for (std::int64_t tensor = 0; tensor < sizes.tensor; ++tensor) {
    for (std::int64_t stage = 0; stage < sizes.pipeline; ++stage) {
      for (std::int64_t expert = tensor % step; expert < sizes.expert; expert += step) {
        ranks.push_back({tensor, stage, expert});
      }
    }
  }
  return ranks;
}

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
