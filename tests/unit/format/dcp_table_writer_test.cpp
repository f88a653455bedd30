// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_table_writer.h"

#include <string>

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs {
namespace {

using test::expect_error;

/// A matrix in two boxes, a scalar, one without elements, and two objects.
DcpTable sample() {
  DcpTable table;
  table.files = {"__0_0.distcp", "sub/__1_0.distcp"};
  table.byte_items = {{"optim.groups.0.lr", {0, {0, 100}}}, {"step", {1, {0, 0}}}};
  table.tensors = {{"model.w", DType::kBFloat16, {4, 300}, 0, 2, 0},
                   {"層", DType::kUInt64, {}, 2, 1, 8},
                   {"empty", DType::kFloat8E4M3, {0, 5}, 3, 0, 8}};
  table.places = {{1, {64, 1000}}, {0, {128, 1ULL << 40U}}, {0, {1ULL << 41U, 700}}};
  table.bounds = {0, 0, 4, 100, 0, 100, 4, 200};
  table.paths = {{"optim.groups.0.lr", {"optim", "groups", 0, "lr"}}, {"model.w", {"model", "w"}}};
  return table;
}

void expect_same(const DcpTable& got, const DcpTable& want) {
  EXPECT_EQ(got.bounds, want.bounds);
  EXPECT_EQ(got.paths, want.paths);
  EXPECT_TRUE(got.refused.empty());
  const auto expect_place = [&](const DcpPlace& mine, const DcpPlace& theirs) {
    EXPECT_EQ(got.files.at(mine.file), want.files.at(theirs.file));
    EXPECT_EQ(mine.item, theirs.item);
  };
  ASSERT_EQ(got.places.size(), want.places.size());
  for (std::size_t i = 0; i < want.places.size(); ++i) {
    expect_place(got.places[i], want.places[i]);
  }
  ASSERT_EQ(got.byte_items.size(), want.byte_items.size());
  for (std::size_t i = 0; i < want.byte_items.size(); ++i) {
    EXPECT_EQ(got.byte_items[i].name, want.byte_items[i].name);
    expect_place(got.byte_items[i].place, want.byte_items[i].place);
  }
  ASSERT_EQ(got.tensors.size(), want.tensors.size());
  for (std::size_t i = 0; i < want.tensors.size(); ++i) {
    const DcpTensor& mine = got.tensors[i];
    const DcpTensor& theirs = want.tensors[i];
    EXPECT_EQ(mine.name, theirs.name);
    EXPECT_EQ(mine.dtype, theirs.dtype);
    EXPECT_EQ(mine.shape, theirs.shape);
    EXPECT_EQ(mine.first_box, theirs.first_box);
    EXPECT_EQ(mine.boxes, theirs.boxes);
    EXPECT_EQ(mine.first_bound, theirs.first_bound);
  }
}

TEST(DcpTableWriter, IsReadAgain) {
  for (const DcpModules& modules : {DcpModules(), kDcpModulesOf113}) {
    const std::string bytes = write_dcp_table(sample(), modules);
    EXPECT_NE(bytes.find(modules.metadata), std::string::npos);
    EXPECT_EQ(write_dcp_table(sample(), modules), bytes);
    expect_same(read_dcp_table(bytes), sample());
  }
}

/// As hyper-parallel's Trainer keeps it: a tensor under two names, a scalar, and an object.
DcpTable keyed_sample() {
  DcpTable table;
  table.by_name = true;
  table.files = {"model-00001-of-00001.safetensors", "sub/objects.bytes"};
  table.keys = {"model.w"};
  table.byte_items = {{"extra_state.epoch", {1, {3, 5}}}};
  table.tensors = {{"model.w", DType::kBFloat16, {4, 3}, 0, 1, 0},
                   {"model.head", DType::kBFloat16, {4, 3}, 1, 1, 4},
                   {"optimizer.state.w.step", DType::kFloat32, {}, 2, 1, 8}};
  table.places = {{0, {}, 0}, {0, {}, 0}, {0, {}}};
  table.bounds = {0, 0, 4, 3, 0, 0, 4, 3};
  table.paths = {{"model.w", {"model", "w"}},
                 {"optimizer.state.w.step", {"optimizer", "state", "w", "step"}}};
  return table;
}

TEST(DcpTableWriter, WritesHyperParallelsForm) {
  const std::string bytes = write_dcp_table(keyed_sample(), kDcpModulesOfHyper);
  const DcpTable got = read_dcp_table(bytes);
  expect_same(got, keyed_sample());
  EXPECT_TRUE(got.by_name);
  EXPECT_FALSE(got.has_object_files);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_NE(got.places[i].key, DcpPlace::kOwnName);
    EXPECT_EQ(got.keys.at(got.places[i].key), "model.w");
  }
  EXPECT_EQ(got.places[2].key, DcpPlace::kOwnName);
  // Types are texts, sizes plain tuples, and the release of the form is stated.
  for (const char* absent : {"ctorch\n", "_StorageInfo"}) {
    EXPECT_EQ(bytes.find(absent), std::string::npos) << absent;
  }
  for (const char* text : {"torch.bfloat16", "torch.float32", "1.0"}) {
    EXPECT_NE(bytes.find(text), std::string::npos) << text;
  }
}

TEST(DcpTableWriter, HyperParallelsPlacesOfTensorsHaveNoLength) {
  // StorageInfo(file, 0, -1, ...), and of an object its range, without a key.
  const std::string bytes = write_dcp_table(keyed_sample(), kDcpModulesOfHyper);
  EXPECT_NE(bytes.find(std::string("K\0J\xff\xff\xff\xff", 7)), std::string::npos);
  EXPECT_NE(bytes.find("K\3K\5Nt"), std::string::npos);
}

TEST(DcpTableWriter, AnEmptyTableIsOne) {
  const DcpTable table = read_dcp_table(write_dcp_table({}, {}));
  EXPECT_TRUE(table.tensors.empty());
}

TEST(DcpTableWriter, NeedsFewBytesForManyBoxesOfOneKind) {
  DcpTable table = sample();
  table.tensors.clear();
  table.places.clear();
  table.bounds.clear();
  constexpr std::size_t kTensors = 1000;
  for (std::size_t i = 0; i < kTensors; ++i) {
    table.tensors.push_back(
        {"layers." + std::to_string(i) + ".weight", DType::kFloat32, {8, 8}, i, 1, 4 * i});
    table.places.push_back({0, {1024 * i, 1000}});
    table.bounds.insert(table.bounds.end(), {0, 0, 8, 8});
  }
  EXPECT_LT(write_dcp_table(table, {}).size(), 150 * kTensors);
}

TEST(DcpTableWriter, NamesWhatIsNoUtf8) {
  DcpTable table = sample();
  table.tensors[0].name = "bad\xff";
  expect_error(ErrorKind::kUnsupported, {"not valid UTF-8"}, [&] { write_dcp_table(table, {}); });
}

TEST(DcpTable, PathsThatAreNotTheNamesDoNotCount) {
  DcpTable table = sample();
  table.paths = {{"model.w", {"model", "x"}},
                 {"optim.groups.0.lr", {"optim.groups", 0, "lr"}},
                 {"step", {"step", "", "a"}}};
  const DcpTable got = read_dcp_table(write_dcp_table(table, {}));
  EXPECT_EQ(got.paths.size(), 1U);
  EXPECT_EQ(got.paths.at("optim.groups.0.lr"), (DcpPath{"optim.groups", 0, "lr"}));
}

}  // namespace
}  // namespace reshardfs
