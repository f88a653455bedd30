// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/torch_file.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "checkpoint/torch/state_key.h"
#include "support/errors.h"
#include "unit/checkpoint/recording_source.h"
#include "unit/format/pickle_samples.h"

namespace reshardfs::torch_file_tests {
namespace {

using test::expect_error;
using test::read_text;
using test::RecordingSource;
namespace p = test::pickled;
using Names = std::vector<std::string>;

const std::string kStored = "aaaabbbbccccddddeeeeffff";

std::string view(const p::Placed& placed) {
  return p::v2_tensor(p::storage("FloatStorage", "0", 6), placed);
}

std::shared_ptr<RecordingSource> torch_source(const std::string& value) {
  return std::make_shared<RecordingSource>(p::zip_of(value, {{"0", kStored}}), "model.pt");
}

std::string contents_of(const TorchFile& file, const std::string& name) {
  const TensorEntry* const entry = file.index->find(name);
  if (entry == nullptr) return "no such tensor";
  std::string all;
  for (const ByteRange& extent : entry->extents) {
    all += read_text(*file.source, extent.offset(), static_cast<std::size_t>(extent.length()));
  }
  EXPECT_EQ(all.size(), entry->content_bytes) << name;
  return all;
}

Names entries_of(const TorchFile& file) {
  Names names;
  for (const TensorEntry& entry : file.index->entries()) names.push_back(entry.name);
  return names;
}

TEST(TorchFile, ReadsEveryTensorInCOrder) {
  const auto source = torch_source(p::named({{"whole", view({0, {2, 3}, {3, 1}})},
                                             {"part", view({2, {2}, {1}})},
                                             {"turned", view({0, {3, 2}, {1, 3}})},
                                             {"gaps", view({1, {2, 2}, {3, 1}})},
                                             {"spread", view({5, {3}, {0}})},
                                             {"empty", view({0, {0, 3}, {3, 1}})},
                                             {"scalar", view({4, {}, {}})}}));
  const TorchFile file = open_torch_file(source, "");
  EXPECT_EQ(contents_of(file, "whole"), kStored);
  EXPECT_EQ(contents_of(file, "part"), "ccccdddd");
  EXPECT_EQ(contents_of(file, "turned"), "aaaaddddbbbbeeeeccccffff");
  EXPECT_EQ(contents_of(file, "gaps"), "bbbbcccceeeeffff");
  EXPECT_EQ(contents_of(file, "spread"), "ffffffffffff");
  EXPECT_EQ(contents_of(file, "empty"), "");
  EXPECT_EQ(contents_of(file, "scalar"), "eeee");
  EXPECT_EQ(file.index->find("turned")->shape, (Shape{3, 2}));
  EXPECT_EQ(file.source->size(), source->size() + 24 + 16 + 12);
}

TEST(TorchFile, IsItsOwnSourceIfAllLieInCOrder) {
  const auto source = torch_source(p::named({{"w", view({0, {2, 3}, {3, 1}})}}));
  const TorchFile file = open_torch_file(source, "");
  EXPECT_EQ(file.source, source);
  EXPECT_EQ(source->calls.back(), "check");
  source->changed = true;
  expect_error(ErrorKind::kChanged, {"model.pt"}, [&] { open_torch_file(source, ""); });
}

TEST(TorchFile, TakesWhatIsBelowAKey) {
  const std::string whole = view({0, {6}, {1}});
  const std::string value = p::named(
      {{"model",
        p::named({{"a.w", whole}, {"gone", p::float_tensor("7", {1})}, {"note", p::kNone}})},
       {"modelx", p::named({{"w", whole}})},
       {"epoch", p::number(1)},
       {"bad", p::float_tensor("7", {1})}});
  const TorchFile all = open_torch_file(torch_source(value), "");
  EXPECT_EQ(entries_of(all), (Names{"model.a.w", "modelx.w"}));
  EXPECT_EQ(all.index->refused().size(), 2U);
  EXPECT_EQ(all.beside.wrappers, (Names{"model"}));
  EXPECT_EQ(all.beside.values.size(), 2U);

  const TorchFile model = open_torch_file(torch_source(value), "model");
  EXPECT_EQ(entries_of(model), (Names{"a.w"}));
  ASSERT_EQ(model.index->refused().size(), 1U);
  EXPECT_EQ(model.index->refused()[0].name, "gone");
  ASSERT_EQ(model.beside.values.size(), 1U);
  EXPECT_EQ(model.beside.values[0].name, "note");

  EXPECT_EQ(entries_of(open_torch_file(torch_source(value), "model.a")), (Names{"w"}));
  EXPECT_EQ(entries_of(open_torch_file(torch_source(value), "mod")), Names());
}

TEST(TorchFile, MakesAnIndexOfBoxes) {
  TorchTensor tensor;
  tensor.name = "w";
  tensor.shape = {2, 3};
  tensor.strides = {3, 1};
  tensor.storage = ByteRange(100, 24);
  BoxOffsets boxes;
  boxes.add(0, {4, 0});
  const ByteSourcePtr file = torch_source(p::kNone);
  ByteSourcePtr source;
  const auto index = index_of_tensors({tensor}, {{"x", "why", 0}}, file, source, std::move(boxes));
  EXPECT_EQ(source, file);
  ASSERT_EQ(index->entries().size(), 1U);
  EXPECT_EQ(index->entries()[0].extents[0], ByteRange(100, 24));
  EXPECT_TRUE(index->has_only_boxes());
  EXPECT_EQ(index->box_offsets(index->entries()[0]).value()[0], 4);
  EXPECT_TRUE(index->lists("x"));
}

TEST(StateKey, CutsNamesBehindADot) {
  const auto taken = [](const std::string& key, std::string name) {
    return take_state(key, name) ? name : "-" + name;
  };
  EXPECT_EQ(taken("", "a.b"), "a.b");
  EXPECT_EQ(taken("a", "a.b"), "b");
  EXPECT_EQ(taken("a.b", "a.b.c.d"), "c.d");
  EXPECT_EQ(taken("a", "a"), "-a");
  EXPECT_EQ(taken("a", "a."), "-a.");
  EXPECT_EQ(taken("a", "ab.c"), "-ab.c");
  EXPECT_EQ(taken("b", "a.b.c"), "-a.b.c");
  std::vector<SavedValue> values{{"a.x", "None"}, {"b", "None"}, {"a.y.z", "None"}};
  keep_state("a", values);
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[1].name, "y.z");
}

}  // namespace
}  // namespace reshardfs::torch_file_tests
