// SPDX-License-Identifier: Apache-2.0
/// Which ranks and pipeline stages follow from what a step's metadata states.
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "reshardfs/error.h"

#include "checkpoint/iteration/iteration_catalogue.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace reshardfs {
namespace {

using test::ranks;

/// A parameter for each list of ranks, and a file for each rank that stores something.
class IterationRanks : public testing::Test {
 protected:
  /// @param places of the layout's device matrix; none: it has no layout.
  void add(const std::vector<Rank>& places, const std::vector<Rank>& storing = {}) {
    RecordedParameter parameter;
    parameter.name = "w" + std::to_string(metadata_.parameters.size());
    if (!places.empty()) {
      RecordedLayout layout;
      layout.device_matrix = {static_cast<std::int64_t>(places.size())};
      layout.ranks = places;
      parameter.layout = std::make_shared<const RecordedLayout>(std::move(layout));
    }
    std::vector<StoredShard> stored;
    for (const Rank rank : storing) {
      stored.push_back({static_cast<std::uint32_t>(metadata_.files.size()), rank});
      metadata_.files.push_back(std::to_string(metadata_.files.size()) + ".safetensors");
    }
    parameter.slices = std::make_shared<const std::vector<RecordedSlice>>(
        std::vector{RecordedSlice{0, std::make_shared<const std::vector<StoredShard>>(stored)}});
    metadata_.parameters.push_back(std::move(parameter));
  }
  SourceRanks found() const {
    return IterationCatalogue(std::make_shared<const IterationMetadata>(metadata_)).ranks();
  }
  void expect_stages(std::int64_t stages, std::int64_t devices) const {
    const SourceRanks all = found();
    EXPECT_EQ(all.all(), test::first_ranks(stages * devices));
    EXPECT_EQ(all.devices(), devices);
    EXPECT_EQ(all.stages(), stages);
  }

  IterationMetadata metadata_;
};

TEST_F(IterationRanks, AreInAStageForEachGroup) {
  add(ranks({2, 3}), ranks({2, 3}));
  add(ranks({0, 1}), ranks({0, 1}));
  expect_stages(2, 2);
  add(ranks({6, 7}));
  expect_stages(4, 2);
}

TEST_F(IterationRanks, AreInOneStageOfOneList) {
  add(ranks({0, 1, 2, 3}), ranks({0, 1, 2, 3}));
  add(ranks({0, 1, 2, 3}));
  expect_stages(1, 4);
}

TEST_F(IterationRanks, CountFromRankZeroOn) {
  add(ranks({4, 5, 6, 7}), ranks({4, 5, 6, 7}));
  expect_stages(2, 4);
}

TEST_F(IterationRanks, AreInOneStageWhereAListIsIrregular) {
  add(ranks({0, 2, 1, 3}), ranks({0, 1, 2, 3}));
  expect_stages(1, 4);
  add(ranks({4, 5, 6, 7}));
  expect_stages(1, 8);
}

TEST_F(IterationRanks, AreInOneStageWhereListsBeginBetweenGroups) {
  add(ranks({1, 2}), ranks({1, 2}));
  expect_stages(1, 3);
}

TEST_F(IterationRanks, AreInOneStageWhereListsDifferInLength) {
  add(ranks({0, 1, 2, 3}));
  add(ranks({0, 1}));
  expect_stages(1, 4);
}

TEST_F(IterationRanks, AreInOneStageWhereAFileIsOfNoWholeGroup) {
  add(ranks({0, 1}), ranks({0, 1}));
  add({}, ranks({2}));
  expect_stages(1, 3);
  add({}, ranks({3}));
  expect_stages(2, 2);
}

TEST_F(IterationRanks, AreThoseOfTheFilesWithoutAnyLayout) {
  expect_stages(1, 1);
  add({}, {});
  expect_stages(1, 1);
  add({}, ranks({0, 3, 1}));
  expect_stages(1, 4);
}

TEST_F(IterationRanks, AreRefusedWhereThereAreTooMany) {
  constexpr std::int64_t kLimit = 1 << 20;
  add({Rank(kLimit - 1)}, {Rank(kLimit - 1)});
  expect_stages(kLimit, 1);
  for (const std::int64_t rank : {kLimit, std::numeric_limits<std::int64_t>::max()}) {
    const std::string word = "rank " + std::to_string(rank);
    metadata_.parameters.clear();
    add({}, {Rank(rank)});
    test::expect_error(ErrorKind::kBadInput, {word, "limit"}, [&] { found(); });
    metadata_.parameters.clear();
    add({Rank(rank), Rank(0)});
    test::expect_error(ErrorKind::kBadInput, {word, "limit"}, [&] { found(); });
  }
}

}  // namespace
}  // namespace reshardfs
