// SPDX-License-Identifier: Apache-2.0
/// MindSpore's strategy files that are cut anywhere, or have any bit flipped: as the strategy of an
/// intact source, and as that of the target.
#include <gtest/gtest.h>

#include "strategy/files/strategy_file.h"
#include "strategy_oracle.h"
#include "tally.h"

namespace reshardfs::damage {
namespace {

const std::vector<OperatorStrategy> kOperators{{"MatMul-op0", 0, {{2, 2}, {2, 1}}}};

/// Every kind of cut that MindSpore's files can state.
const CutModel& one_stage() {
  static const CutModel model = [] {
    Layout rows{.device_matrix = {2, 2}, .tensor_map = {{1}, {0}}};
    Layout nested{.device_matrix = {2, 2}, .tensor_map = {{1, 0}, {}}};
    Layout optimizer{.device_matrix = {2, 2}, .tensor_map = {{0}, {}}};
    optimizer.optimizer_shard_size = -1;
    optimizer.optimizer_shard_step = 2;
    Layout whole{.device_matrix = {2, 2}, .tensor_map = {{}}};
    Layout uneven{.device_matrix = {4}, .tensor_map = {{0}}};
    uneven.param_split_shape = {{3, 1, 2, 5}};
    Layout fields{.device_matrix = {2, 2}, .tensor_map = {{0}, {}}};
    fields.field = 3;
    return CutModel(Strategy({{{"rows", rows},
                               {"nested", nested},
                               {"optimizer", optimizer},
                               {"whole", whole},
                               {"uneven", uneven},
                               {"fields", fields}}},
                             0, false, kOperators),
                    {{"rows", {4, 6}},
                     {"nested", {8, 3}},
                     {"optimizer", {8, 2}},
                     {"whole", {5}},
                     {"uneven", {11}},
                     {"fields", {12, 2}}});
  }();
  return model;
}

/// Two stages of two devices each, in one file.
const CutModel& two_stages() {
  static const CutModel model = [] {
    const Layout rows{.device_matrix = {2}, .tensor_map = {{0}, {}}};
    const Layout columns{.device_matrix = {2}, .tensor_map = {{}, {0}}};
    return CutModel(Strategy({{{"a", rows}, {"b", columns}}, {{"c", columns}}}, 0, true),
                    {{"a", {4, 2}}, {"b", {3, 4}}, {"c", {2, 6}}});
  }();
  return model;
}

Strategy parse(const std::string& name, const std::string& bytes) {
  return strategy_of_file(name, parse_strategy_file(name, bytes));
}

/// Without what JSON adds, so that the facts can be compared.
Strategy without_shapes(const Strategy& strategy) {
  std::vector<StageLayouts> stages;
  for (std::int64_t i = 0; i < strategy.stage_count(); ++i) {
    StageLayouts& stage = stages.emplace_back();
    for (const auto& [name, layout] : strategy.stage(i)) {
      Layout without = layout;
      without.tensor_shape.clear();
      stage.insert_or_assign(name, without);
    }
  }
  return Strategy(std::move(stages), strategy.first_stage(), strategy.stage_prefixed());
}

struct Case {
  const char* title;
  const char* file;
  const CutModel& (*model)();
};

class DamagedStrategy : public ::testing::TestWithParam<Case> {
 protected:
  const CutModel& model() const { return GetParam().model(); }
  std::string bytes() const {
    return is_json_name(GetParam().file) ? to_json(model().strategy())
                                         : to_protobuf(model().strategy());
  }
  std::string title(const std::string& what) const {
    return what + " of a strategy, " + GetParam().title;
  }

  /// Reads the damaged file in both places.
  void add(Tally& source, Tally& target, const std::string& damaged, const std::string& where) {
    source.add(where, [&] { return model().kind_as_source(read(damaged)); });
    target.add(where, [&] { return model().kind_as_target(read(damaged)); });
  }

 private:
  Strategy read(const std::string& damaged) const {
    return without_shapes(parse(GetParam().file, damaged));
  }
};

TEST_P(DamagedStrategy, TheIntactOneGivesTheRightBytes) {
  EXPECT_EQ(model().kind_as_source(parse(GetParam().file, bytes())), "");
  EXPECT_EQ(model().kind_as_target(parse(GetParam().file, bytes())), "");
}

TEST_P(DamagedStrategy, EveryCutIsRefusedOrEndsBehindALayout) {
  // What lays out fewer parameters is a strategy of its own. As that of a source it is refused for
  // those that differ between the ranks; as that of a target it leaves them out, with a warning.
  Tally source(title("cuts") + ", of the source", {});
  Tally target(title("cuts") + ", of the target", {"missing"});
  each_cut(bytes(), [&](const std::string& cut, const std::string& where) {
    add(source, target, cut, where);
  });
}

TEST_P(DamagedStrategy, EveryFlippedBitIsRefusedOrGivesWhatItStates) {
  Tally source(title("bits") + ", of the source", {"layout"});
  Tally target(title("bits") + ", of the target", {"layout", "name", "stage"});
  each_flip(bytes(), {}, [&](const auto& flipped, const auto& where, std::size_t) {
    add(source, target, flipped, where);
  });
  EXPECT_EQ(source.total(), 8 * bytes().size());
}

INSTANTIATE_TEST_SUITE_P(Files, DamagedStrategy,
                         ::testing::Values(Case{"protobuf", "s.ckpt", one_stage},
                                           Case{"JSON", "s.json", one_stage},
                                           Case{"protobuf of stages", "t.ckpt", two_stages},
                                           Case{"JSON of stages", "t.json", two_stages}),
                         [](const auto& one) {
                           std::string name = one.param.title;
                           std::erase(name, ' ');
                           return name;
                         });

}  // namespace
}  // namespace reshardfs::damage
