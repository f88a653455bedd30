// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/megatron/rank_file.h"
#include "support/errors.h"
#include "support/sources.h"
#include "unit/format/pickle_samples.h"

namespace reshardfs::megatron_rank_file_tests {
namespace {

using test::expect_error;
using test::MemorySource;
namespace p = test::pickled;
using Names = std::vector<std::string>;
using Layers = std::vector<std::int64_t>;

const p::Storages kStored{{"0", "aaaabbbb"}};
const std::string kTensor = p::float_tensor("0", {2});

MegatronRankFile read(const p::Pairs& saved) {
  const MemorySource source(p::zip_of(p::named(saved), kStored), "rank.pt");
  return read_megatron_rank(TorchArchive(source));
}

void expect_refused(const p::Pairs& saved, const std::string& words,
                    ErrorKind kind = ErrorKind::kBadInput) {
  SCOPED_TRACE(words);
  expect_error(kind, {"rank.pt", words}, [&] { read(saved); });
}

std::string model(const Names& names) {
  p::Pairs tensors;
  for (const std::string& name : names) tensors.emplace_back(name, kTensor);
  return p::named(tensors);
}

Names names_of(const MegatronChunk& chunk) {
  Names names;
  for (const TorchTensor& tensor : chunk.tensors) names.push_back(tensor.name);
  return names;
}

TEST(MegatronRankFile, HasTheModelAndWhatLiesBesideIt) {
  const std::string args = p::build(p::new_object(p::global("argparse", "Namespace")),
                                    p::named({{"num_layers", p::number(8)}}));
  const MegatronRankFile file =
      read({{"args", args},
            {"iteration", p::number(100)},
            {"model", model({"decoder.layers.0.a.weight", "decoder.layers.1.a.weight", "b"})},
            {"optimizer", p::named({{"state", kTensor}, {"lr", p::number(1)}})},
            {"scheduler", p::named({{"steps", p::number(1)}})}});
  ASSERT_EQ(file.chunks.size(), 1U);
  EXPECT_EQ(names_of(file.chunks[0]),
            (Names{"decoder.layers.0.a.weight", "decoder.layers.1.a.weight", "b"}));
  EXPECT_EQ(file.chunks[0].layers, (Layers{0, 1}));
  EXPECT_EQ(file.args.number("num_layers"), 8);
  EXPECT_EQ(file.iteration, 100);
  EXPECT_EQ(file.other_tensors, std::set<std::string>{"optimizer"});
  Names values;
  for (const SavedValue& value : file.values) values.push_back(value.name);
  EXPECT_EQ(values, (Names{"args", "iteration", "scheduler"}));
}

TEST(MegatronRankFile, ExtraStatesAreNoWeights) {
  const MegatronRankFile file = read({{"model", p::named({{"a.weight", kTensor},
                                                          {"a._extra_state", kTensor},
                                                          {"b._extra_state", p::kNone}})}});
  EXPECT_EQ(names_of(file.chunks.at(0)), Names{"a.weight"});
  EXPECT_EQ(file.extra_states, 2U);
}

TEST(MegatronRankFile, HasLayersInOrder) {
  const MegatronRankFile file =
      read({{"model", model({"decoder.layers.10.a.b", "decoder.layers.2.a.b"})}});
  EXPECT_EQ(file.chunks.at(0).layers, (Layers{2, 10}));
}

TEST(MegatronRankFile, MayHaveVirtualStages) {
  const MegatronRankFile file = read({{"model0", model({"decoder.layers.0.a.weight"})},
                                      {"model1", model({"output_layer.weight"})}});
  ASSERT_EQ(file.chunks.size(), 2U);
  EXPECT_EQ(names_of(file.chunks[1]), Names{"output_layer.weight"});
  EXPECT_EQ(file.chunks[0].layers, Layers{0});
  EXPECT_EQ(file.chunks[1].layers, Layers{});
}

TEST(MegatronRankFile, MustHaveAllVirtualStages) {
  expect_refused({{"model0", model({"a"})}, {"model2", model({"b"})}},
                 "has no tensors below the key 'model1'");
  expect_refused({{"model0", model({"a"})}, {"model", model({"b"})}}, "both 'model' and 'model0'");
  expect_refused({{"optimizer", model({"a"})}}, "has no tensors below the key 'model'",
                 ErrorKind::kUnsupported);
}

TEST(MegatronRankFile, NamesBeforeMegatronCoreAreRefused) {
  const std::string encoder =
      p::named({{"layers.0.self_attention.query_key_value.weight", kTensor}});
  expect_refused({{"model", p::named({{"language_model", p::named({{"encoder", encoder}})}})}},
                 "--loader legacy --saver core", ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace reshardfs::megatron_rank_file_tests
