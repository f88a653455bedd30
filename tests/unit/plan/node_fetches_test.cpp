// SPDX-License-Identifier: Apache-2.0
/// The model against a look at each byte that each rank reads.
#include "plan/traffic/node_fetches.h"

#include <map>
#include <random>
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/traffic/traffic.h"
#include "support/checkpoint.h"
#include "support/ranks.h"
#include "support/wire.h"

namespace reshardfs {
namespace {

using test::memory_set;
using test::ranks;
using test::record;
using ::testing::ElementsAre;

using FileByte = std::pair<const RankFile*, std::uint64_t>;

/// The file's bytes that the byte of an entry's content is made of.
std::vector<std::uint64_t> stored_at(const TensorEntry& entry, std::uint64_t content) {
  const bool twice = entry.encoding == ContentEncoding::kFloat32AsBFloat16;
  std::vector<std::uint64_t> out;
  for (std::uint64_t i = 0; i < (twice ? 2U : 1U); ++i) {
    std::uint64_t left = (twice ? 2 : 1) * content + i;
    for (const ByteRange& extent : entry.extents) {
      if (left < extent.length()) {
        out.push_back(extent.offset() + left);
        break;
      }
      left -= extent.length();
    }
  }
  return out;
}

std::uint64_t bytes_of_units(const std::set<FileByte>& bytes, std::uint64_t unit) {
  std::set<FileByte> units;
  for (const auto& [file, byte] : bytes) units.emplace(file, byte / unit);
  std::uint64_t total = 0;
  for (const auto& [file, number] : units) {
    total += std::min((number + 1) * unit, file->source->size()) - number * unit;
  }
  return total;
}

NodeFetches by_hand(const TargetTable& target, const std::vector<Rank>& node,
                    const CacheGrain& grain) {
  NodeFetches fetches;
  fetches.ranks = node;
  std::set<FileByte> all;
  for (const Rank rank : node) {
    target.for_each_tensor(rank, [&](const TargetParameter& parameter, const ShownTensor& view) {
      const auto elements =
          view.size() / static_cast<std::uint64_t>(element_size(view.grid().dtype()));
      fetches.needed += elements * static_cast<std::uint64_t>(element_size(parameter.dtype));
      for (std::uint64_t at = 0; at < view.size(); ++at) {
        view.for_each_run(ByteRange(at, 1), [&](const StridedRun& run) {
          if (!run.holding) return;
          for (const std::uint64_t byte : stored_at(*run.holding.entry, run.source_offset)) {
            ++fetches.fetched;
            all.emplace(run.holding.file, byte);
          }
        });
      }
    });
  }
  fetches.fetched_cached = bytes_of_units(all, grain.sector);
  fetches.cache = bytes_of_units(all, grain.block);
  return fetches;
}

void expect_by_hand(const TargetTable& target, const std::vector<std::vector<Rank>>& nodes,
                    const CacheGrain& grain) {
  const std::vector<NodeFetches> found = node_fetches(target, nodes, {grain, 0});
  ASSERT_EQ(found.size(), nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeFetches expected = by_hand(target, nodes[i], grain);
    EXPECT_EQ(found[i].ranks, nodes[i]);
    EXPECT_EQ(found[i].needed, expected.needed) << "node " << i;
    EXPECT_EQ(found[i].fetched, expected.fetched) << "node " << i;
    EXPECT_EQ(found[i].fetched_cached, expected.fetched_cached) << "node " << i;
    EXPECT_EQ(found[i].cache, expected.cache) << "node " << i;
  }
}

std::vector<Rank> first_ranks(std::int64_t count) {
  const RankRange range(Rank(), count);
  return {range.begin(), range.end()};
}

TEST(RanksOfNodes, AreNeighborsAsManyOnEach) {
  EXPECT_THAT(ranks_of_nodes(ranks({0, 1, 2, 3}), 2), ElementsAre(ranks({0, 1}), ranks({2, 3})));
  EXPECT_THAT(ranks_of_nodes(ranks({1, 3, 4, 6, 7}), 3),
              ElementsAre(ranks({1, 3}), ranks({4, 6}), ranks({7})));
  EXPECT_THAT(ranks_of_nodes(ranks({5}), 1), ElementsAre(ranks({5})));
}

TEST(FetchTimes, AreThoseOfTheSlowestNodeAndOfTheStore) {
  const FetchTimes both = fetch_times({100, 300, 200}, {.node = 10.0, .store = 15.0});
  EXPECT_EQ(both.node, 30.0);
  EXPECT_EQ(both.store, 40.0);
  EXPECT_EQ(both.least(), 40.0);
  EXPECT_EQ(fetch_times({100, 300}, {.node = 1.0, .store = 400.0}).least(), 300.0);
  EXPECT_EQ(fetch_times({100, 300}, {.node = {}, .store = 4.0}).least(), 100.0);
  EXPECT_EQ(fetch_times({100, 300}, {.node = 3.0, .store = {}}).least(), 100.0);
  EXPECT_EQ(fetch_times({100}, {}).least(), std::nullopt);
  EXPECT_EQ(fetch_times({}, {.node = 1.0, .store = 1.0}).least(), std::nullopt);
}

/// One device matrix, [2, 2, 2], cut in every way.
Layout layout(std::vector<std::vector<std::int64_t>> map) {
  Layout layout{.device_matrix = {2, 2, 2}, .tensor_map = {}};
  for (auto& axes : map) layout.tensor_map.emplace_back(axes.begin(), axes.end());
  return layout;
}

class RandomSets : public testing::Test {
 protected:
  static constexpr unsigned kSeed = 11;

  RandomSets() { RecordProperty("seed", static_cast<int>(kSeed)); }

  std::size_t below(std::size_t limit) { return random_() % limit; }

  Layout random_layout() {
    static const std::vector<std::vector<std::vector<std::int64_t>>> kMaps{
        {{}, {}}, {{0}, {}}, {{}, {1}}, {{2}, {0}}, {{0, 1}, {2}}, {{}, {2, 1, 0}}, {{1}, {}}};
    return layout(kMaps[below(kMaps.size())]);
  }

  /// The slice of a [8, 16] parameter that each of 8 ranks has, as one record or several.
  std::string record_of(const std::string& name, const Layout& layout, const std::string& type) {
    std::int64_t rows = 8;
    std::int64_t columns = 16;
    for (std::size_t i = 0; i < layout.tensor_map[0].size(); ++i) rows /= 2;
    for (std::size_t i = 0; i < layout.tensor_map[1].size(); ++i) columns /= 2;
    // Old BFloat16 is stored in four bytes.
    const std::size_t size = type == "Int8" ? 1 : 4;
    const std::string data(static_cast<std::size_t>(rows * columns) * size, 'x');
    // Half of that would be taken for the whole of new BFloat16.
    if (data.size() < 12 || type == "BFloat16" || below(3) != 0)
      return record(name, {rows, columns}, type, data);
    const std::size_t cut = (1 + below(data.size() / size - 1)) * size;
    return record(name, {rows, columns}, type, data.substr(0, cut)) +
           record(name, {rows, columns}, type, data.substr(cut));
  }

  std::mt19937_64 random_{kSeed};
};

TEST_F(RandomSets, AreFetchedByteForByteAsTheModelSays) {
  for (int round = 0; round < 60; ++round) {
    StageLayouts source;
    StageLayouts destination;
    // Some are cut alike, so that they are of one kind.
    std::vector<std::pair<Layout, Layout>> cuts;
    for (int i = 0; i < 3; ++i) cuts.emplace_back(random_layout(), random_layout());
    std::map<std::int64_t, std::string> files;
    for (std::int64_t rank = 0; rank < 8; ++rank) files[rank];
    for (int i = 0; i < 7; ++i) {
      const std::string name = "p" + std::to_string(i);
      const auto& [from, to] = cuts[below(cuts.size())];
      source.try_emplace(name, from);
      destination.try_emplace(name, to);
      static const std::vector<std::string> kTypes{"Int8", "Float32", "BFloat16"};
      const std::string type = kTypes[below(kTypes.size())];
      // Every rank's file has the same index, or not.
      const std::string shared = record_of(name, from, type);
      const bool alike = below(2) == 0;
      for (auto& [rank, bytes] : files) bytes += alike ? shared : record_of(name, from, type);
    }
    TargetOptions options;
    if (below(2) == 0) options.casts = Casts({"p[0-3]:fp32->bf16"});
    if (below(4) == 0) options.replicas = Replicas::kOwn;
    const TargetTable target(
        std::make_shared<const SourceTable>(memory_set(files), Strategy({source}, 0, false)),
        Strategy({destination}, 0, false), options);
    const std::uint64_t sector = 1 + below(30);
    const CacheGrain grain{sector, sector * (1 + below(5))};
    SCOPED_TRACE(round);
    expect_by_hand(target, ranks_of_nodes(first_ranks(8), 1 + below(8)), grain);
  }
}

TEST(NodeFetches, CountWhatARankReadsAsTheTrafficDoes) {
  std::map<std::int64_t, std::string> files;
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    files[rank] = record("w", {4, 8}, "Int8", std::string(32, 'w'));
  }
  const Layout rows = layout({{0}, {}});
  const TargetTable target(
      std::make_shared<const SourceTable>(memory_set(files), Strategy({{{"w", rows}}}, 0, false)),
      Strategy({{{"w", layout({{}, {1}})}}}, 0, false), {});
  const auto nodes = node_fetches(target, {ranks({0, 1}), ranks({6})}, {.joined_stride = 0});
  std::uint64_t bytes = 0;
  for (const Rank rank : ranks({0, 1})) {
    for (const SourceTraffic& traffic : traffic_of(target, rank)) bytes += traffic.bytes;
  }
  EXPECT_EQ(nodes[0].fetched, bytes);
  EXPECT_EQ(nodes[0].needed, bytes);
  // Both are in one sector of each of two files, which the cache takes whole.
  std::uint64_t whole = 0;
  for (const std::int64_t rank : {0, 4}) whole += files[rank].size();
  EXPECT_EQ(nodes[0].fetched_cached, whole);
  EXPECT_EQ(nodes[0].cache, whole);
}

TEST(NodeFetches, FetchWhatStandsBetweenPiecesThatAreNear) {
  const Layout columns = layout({{}, {1}});
  for (const std::string type : {"Float32", "BFloat16"}) {
    const std::string data(std::size_t{10} * 8 * 4, 'w');  // old BFloat16 takes four bytes
    const TargetTable target(std::make_shared<const SourceTable>(
                                 memory_set({{0, record("w", {10, 8}, type, data)}}), std::nullopt),
                             Strategy({{{"w", columns}}}, 0, false), {});
    // Half of ten rows: a row's bytes, in the parameter's type, from one piece to the next.
    const std::uint64_t stride = type == "Float32" ? 32 : 16;
    const auto fetched = [&](std::uint64_t joined_stride) {
      return node_fetches(target, {ranks({0})}, {.joined_stride = joined_stride})[0].fetched;
    };
    EXPECT_EQ(fetched(stride + 1), 9 * 32U + 16U) << type;
    EXPECT_EQ(fetched(stride), 10 * 16U) << type;
    EXPECT_EQ(fetched(0), 10 * 16U) << type;
  }
}

TEST(NodeFetches, FetchOnceWhatRanksOfANodeShare) {
  std::map<std::int64_t, std::string> files;
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    files[rank] = record("w", {8, 16}, "Int8", std::string(128, 'w'));
  }
  const Layout whole = layout({{}, {}});
  const TargetTable target(
      std::make_shared<const SourceTable>(memory_set(files), Strategy({{{"w", whole}}}, 0, false)),
      Strategy({{{"w", whole}}}, 0, false), {});
  const auto nodes = node_fetches(target, ranks_of_nodes(first_ranks(8), 2), {{1, 1}, 0});
  EXPECT_EQ(nodes[0].fetched, 4 * 128U);
  EXPECT_EQ(nodes[0].fetched_cached, 128U);
  EXPECT_EQ(nodes[1].fetched_cached, 128U);
}

}  // namespace
}  // namespace reshardfs
