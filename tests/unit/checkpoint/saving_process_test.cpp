// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <gtest/gtest.h>

#include "checkpoint/megatron/rank_directory.h"
#include "support/errors.h"

namespace reshardfs {
namespace {

using test::expect_error;

/// As ranks are numbered where data parallelism needs no more processes.
std::vector<SavingProcess> saved_by(const MegatronSizes& sizes) {
  std::vector<SavingProcess> all;
  for (const MegatronRank& rank : saving_ranks(sizes)) {
    const std::int64_t number =
        (rank.stage * sizes.expert + rank.expert) * sizes.tensor + rank.tensor;
    all.push_back({mp_rank_name(rank, sizes), rank, number});
  }
  return all;
}

TEST(SavingProcess, TakesDirectoriesInTheirPlaces) {
  for (const MegatronSizes& sizes : {MegatronSizes{2, 1, 1, 2}, MegatronSizes{2, 3, 1, 2},
                                     MegatronSizes{1, 1, 4, 1}, MegatronSizes{2, 2, 2, 2}}) {
    require_places(saved_by(sizes), sizes);
  }
}

TEST(SavingProcess, RefusesAnyTwoThatWereExchanged) {
  const MegatronSizes sizes{2, 2, 2, 2};
  const auto sound = saved_by(sizes);
  for (std::size_t a = 0; a < sound.size(); ++a) {
    for (std::size_t b = a + 1; b < sound.size(); ++b) {
      auto all = sound;
      std::swap(all[a].number, all[b].number);
      expect_error(ErrorKind::kBadInput, {"directories were exchanged"},
                   [&] { require_places(all, sizes); });
    }
  }
}

TEST(SavingProcess, ExpertsOfWholeTensorsFollowTheProcess) {
  const MegatronSizes sizes{2, 1, 2, 1};
  require_places({{"a", {0, 0, 0}, 0}, {"b", {1, 0, 1}, 1}}, sizes);
  expect_error(ErrorKind::kBadInput, {"'a'", "process 1"}, [&] {
    require_places({{"a", {0, 0, 0}, 1}, {"b", {1, 0, 1}, 0}}, sizes);
  });
}

TEST(SavingProcess, RefusesCopies) {
  const MegatronSizes sizes{4, 1, 1, 4};
  auto all = saved_by(sizes);
  all[2].number = 1;
  expect_error(ErrorKind::kBadInput, {"'mp_rank_01' and 'mp_rank_02'", "process 1"},
               [&] { require_places(all, sizes); });
}

TEST(SavingProcess, KnowsNothingOfWhatConvertersState) {
  const MegatronSizes sizes{2, 2, 1, 2};
  auto all = saved_by(sizes);
  EXPECT_TRUE(require_places(all, sizes));
  for (SavingProcess& process : all) process.number = 0;
  EXPECT_FALSE(require_places(all, sizes));
}

}  // namespace
}  // namespace reshardfs
