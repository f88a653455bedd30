// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/megatron/hybrid_layers.h"
#include "checkpoint/megatron/layer_numbers.h"
#include "support/errors.h"
#include "unit/format/pickle_samples.h"

namespace reshardfs::megatron_layers_tests {
namespace {

using test::expect_error;
namespace p = test::pickled;
using Numbers = std::vector<std::int64_t>;

/// As torch.save() writes a set of Python 3.
std::string set_of(const Numbers& numbers) {
  return p::reduce(p::global("__builtin__", "set"), p::tuple({p::number_list(numbers)}));
}

MegatronArgs args_of(const p::Pairs& pairs) {
  const std::string object =
      p::build(p::new_object(p::global("argparse", "Namespace")), p::named(pairs));
  const PickleTree tree(p::pickle(object), PickleRules{});
  return {tree, tree.root()};
}

/// What the layers of a chunk are in the whole model.
Numbers numbers_of(const LayerNumbers& numbers, std::size_t stage, std::size_t chunk,
                   const Numbers& locals) {
  Numbers out;
  for (const std::int64_t local : locals) out.push_back(numbers.of(stage, chunk, local));
  return out;
}

TEST(MegatronLayers, FollowThroughTheStages) {
  const LayerNumbers numbers({}, {{{0, 1, 2}}, {{0}}, {{}}, {{0, 1}}});
  EXPECT_EQ(numbers_of(numbers, 0, 0, {0, 1, 2}), (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers.of(1, 0, 0), 3);
  EXPECT_EQ(numbers_of(numbers, 3, 0, {0, 1}), (Numbers{4, 5}));
}

TEST(MegatronLayers, FollowThroughTheFirstPartsOfAllStagesFirst) {
  const LayerNumbers numbers({}, {{{0, 1}, {0, 1}}, {{0, 1}, {0, 1}}});
  EXPECT_EQ(numbers_of(numbers, 0, 1, {0, 1}), (Numbers{4, 5}));
  EXPECT_EQ(numbers_of(numbers, 1, 0, {0, 1}), (Numbers{2, 3}));
  EXPECT_EQ(numbers_of(numbers, 1, 1, {0, 1}), (Numbers{6, 7}));
}

TEST(MegatronLayers, ReturnThroughTheStagesWithDualPipeV) {
  const MegatronArgs args = args_of({{"schedules_method", p::text("dualpipev")}});
  EXPECT_EQ(stated_chunks(args), 2U);
  const LayerNumbers numbers(args, {{{0, 1}, {0, 1}}, {{0, 1}, {0, 1}}});
  EXPECT_EQ(numbers_of(numbers, 0, 1, {0, 1}), (Numbers{6, 7}));
  EXPECT_EQ(numbers_of(numbers, 1, 0, {0, 1}), (Numbers{2, 3}));
  EXPECT_EQ(numbers_of(numbers, 1, 1, {0, 1}), (Numbers{4, 5}));
}

MegatronArgs hybrid_args(const std::string& pattern, const p::Pairs& more = {}) {
  p::Pairs pairs = {{"hybrid_layer_pattern", p::text(pattern)}};
  pairs.insert(pairs.end(), more.begin(), more.end());
  return args_of(pairs);
}

TEST(MegatronLayers, OfAHybridModelFollowTheSegmentsOfItsPattern) {
  // Stage 0 has the segments 0 and 2, of which one is empty; stage 1 has 1 and 3.
  const LayerNumbers numbers(hybrid_args("*-*||-|M*"), {{{0, 1, 2}, {0}}, {{}, {0, 1}}});
  EXPECT_EQ(numbers_of(numbers, 0, 0, {0, 1, 2}), (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers.of(0, 1, 0), 3);
  EXPECT_EQ(numbers_of(numbers, 1, 1, {0, 1}), (Numbers{4, 5}));
}

TEST(MegatronLayers, OfAHybridModelWithoutSegmentsAreCutEvenly) {
  using Lengths = std::vector<std::int64_t>;
  EXPECT_EQ(layers_of_chunks(hybrid_args(""), "*-*-*-", 3), (Lengths{2, 2, 2}));
  EXPECT_EQ(layers_of_chunks(hybrid_args(""), "*-*-", 1), (Lengths{4}));
  EXPECT_EQ(layers_of_chunks(hybrid_args("", {{"decoder_first_pipeline_num_layers", p::number(1)}}),
                             "*-*-*", 3),
            (Lengths{1, 2, 2}));
  EXPECT_EQ(layers_of_chunks(hybrid_args("", {{"decoder_first_pipeline_num_layers", p::number(3)},
                                              {"decoder_last_pipeline_num_layers", p::number(1)}}),
                             "*-*-*-", 3),
            (Lengths{3, 2, 1}));
  expect_error(ErrorKind::kBadInput, {"whose 5 layers cannot be cut for 2 parts of the model"},
               [] { layers_of_chunks(hybrid_args(""), "*-*-*", 2); });
  expect_error(ErrorKind::kBadInput, {"which has 2 segments for 3 parts of the model"},
               [] { layers_of_chunks(hybrid_args(""), "*-|*-", 3); });
}

TEST(MegatronLayers, LeaveOutThoseWithoutParameters) {
  for (const std::string& noop : {set_of({0, 7, 4}), p::text("4,0,7")}) {
    const MegatronArgs args = args_of({{"num_layers", p::number(8)}, {"noop_layers", noop}});
    const LayerNumbers numbers(args, {{{1, 2, 3}}, {{1, 2}}});
    EXPECT_EQ(numbers_of(numbers, 0, 0, {1, 2, 3}), (Numbers{0, 1, 2}));
    EXPECT_EQ(numbers_of(numbers, 1, 0, {1, 2}), (Numbers{3, 4}));
  }
}

/// Stage 0 has the layers 0, 1 and 4, 5 of eight; stage 1 has 2, 3 and 6, 7.
TEST(MegatronLayers, LeaveThemOutOfVirtualStages) {
  const MegatronArgs args =
      args_of({{"num_layers", p::number(8)}, {"noop_layers", set_of({4, 7})}});
  const LayerNumbers numbers(args, {{{0, 1}, {1}}, {{0, 1}, {0}}});
  EXPECT_EQ(numbers.of(0, 1, 1), 4);
  EXPECT_EQ(numbers.of(1, 0, 1), 3);
  EXPECT_EQ(numbers.of(1, 1, 0), 5);
}

/// Stage 0 has the layers 0, 1 and 6, 7 of eight; stage 1 has 2, 3 and 4, 5.
TEST(MegatronLayers, LeaveThemOutOfDualPipeV) {
  const MegatronArgs args = args_of({{"num_layers", p::number(8)},
                                     {"noop_layers", set_of({5})},
                                     {"schedules_method", p::text("dualpipev")}});
  const LayerNumbers numbers(args, {{{0, 1}, {0, 1}}, {{0, 1}, {0}}});
  EXPECT_EQ(numbers_of(numbers, 0, 1, {0, 1}), (Numbers{5, 6}));
  EXPECT_EQ(numbers.of(1, 1, 0), 4);
}

void expect_refused(const MegatronArgs& args, const StageLayers& layers, const std::string& words,
                    ErrorKind kind = ErrorKind::kBadInput) {
  SCOPED_TRACE(words);
  expect_error(kind, {words}, [&] { LayerNumbers(args, layers); });
}

TEST(MegatronLayers, MustAllBeThere) {
  expect_refused({}, {{{0, 2}}}, "has no layer 1 of pipeline stage 0");
  const MegatronArgs four = args_of({{"num_layers", p::number(4)}});
  expect_refused(four, {{{0, 1}}, {{0}}}, "has 3 layers in all stages");
  const MegatronArgs noop = args_of({{"num_layers", p::number(4)}, {"noop_layers", set_of({0})}});
  expect_refused(noop, {{{1}}, {{1, 2}}}, "has no layer 0 of pipeline stage 1");
  expect_refused(noop, {{{0, 1}}, {{0, 1}}}, "num_layers 4, and noop_layers {0} among them");
  expect_refused(noop, {{{1}}, {{0, 1, 2}}}, "num_layers 4, and noop_layers {0} among them");
  expect_refused(noop, {{{1, 2}}, {{0}}},
                 "has layer 2 of pipeline stage 0, which the arguments do not state");
  expect_refused(args_of({{"noop_layers", set_of({0})}}), {{{1}}}, "num_layers not stated");
}

TEST(MegatronLayers, WhosePlaceIsUnknownAreRefused) {
  const auto args = [](const char* name, const std::string& value) {
    return args_of({{"num_layers", p::number(4)}, {"noop_layers", set_of({0})}, {name, value}});
  };
  expect_refused(args("decoder_first_pipeline_num_layers", p::number(1)), {{{}}, {{0, 1, 2}}},
                 "decoder_first_pipeline_num_layers 1", ErrorKind::kUnsupported);
  expect_refused(args("noop_layers", p::text("first")), {{{1}}, {{0, 1}}},
                 "states 'first' as noop_layers", ErrorKind::kUnsupported);
  expect_refused(args("noop_layers", p::global("a", "b")), {{{1}}, {{0, 1}}},
                 "states a value of another type as noop_layers", ErrorKind::kUnsupported);
  expect_refused(args("noop_layers", set_of({0})), {{{1}}, {{0, 1}}, {{}}},
                 "which cannot share them equally");
}

}  // namespace
}  // namespace reshardfs::megatron_layers_tests
