// SPDX-License-Identifier: Apache-2.0
#include "format/torch/dcp_sharding.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs::safetensors {
namespace {

using test::expect_error;

ParsedHeader header(const std::string& info) {
  ParsedHeader out;
  out.tensors.push_back({"w", DType::kFloat32, true, {4, 8}, 0, 128});
  out.tensors.push_back({"scalar", DType::kFloat32, true, {}, 128, 132});
  if (!info.empty()) out.metadata["DCP_SHARDING_INFO"] = info;
  return out;
}

const char* const kWhole = R"({"w": {"saved_offsets": [0, 0]}, "scalar": {"saved_offsets": []}})";

TEST(DcpSharding, TensorsFromTheirBeginningAreWhole) {
  EXPECT_TRUE(part_offsets(header(""), "set/shard-1.safetensors").empty());
  EXPECT_TRUE(part_offsets(header(kWhole), "set/model-00001-of-00002.safetensors").empty());
}

TEST(DcpSharding, PartsHaveOffsets) {
  const PartOffsets first =
      part_offsets(header(kWhole), "set/shard-00001-model-00001-of-00001.safetensors");
  EXPECT_EQ(first.at("w"), (Shape{0, 0}));
  EXPECT_EQ(first.at("scalar"), Shape());
  const PartOffsets later =
      part_offsets(header(R"({"w": {"other": {"x": [[1]]}, "saved_offsets": [4, 8], "saved": [3]},
                 "scalar": {"saved_offsets": []}, "more": {"saved_offsets": [1]}})"),
                   "set/model.safetensors");
  EXPECT_EQ(later.at("w"), (Shape{4, 8}));
}

TEST(DcpSharding, WhatTheWriterDoesNotStateIsRefused) {
  for (const char* info :
       {"[]",
        "{",
        "{}",
        "3",
        "[3]",
        "",
        R"({"w": 3, "scalar": {"saved_offsets": []}})",
        R"({"w": [0, 0], "scalar": {"saved_offsets": []}})",
        R"({"w": {}, "scalar": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": 0}, "scalar": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": {"a": 0}}, "scalar": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": [[0, 0]]}, "scalar": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": [0, null]}, "scalar": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": [0], "saved_offsets": [0]}, "scalar": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": [0, 0]}, "w": {"saved_offsets": [0, 0]}})",
        R"({"w": {"saved_offsets": [0]}, "scalar": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": [0, -4]}, "scalar": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": [0, 18446744073709551615]}, "scalar": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": [0, 0.5]}, "scalar": {"saved_offsets": []}})",
        R"({"w": {"saved_offsets": [0, 0]}})"}) {
    SCOPED_TRACE(info);
    ParsedHeader bad = header("{}");
    bad.metadata["DCP_SHARDING_INFO"] = info;
    expect_error(ErrorKind::kBadInput, {"DCP_SHARDING_INFO"},
                 [&] { part_offsets(bad, "set/model.safetensors"); });
  }
}

TEST(DcpSharding, DeepJsonIsRefusedAtOnce) {
  ParsedHeader bad = header("{}");
  bad.metadata["DCP_SHARDING_INFO"] = R"({"w": {"x": )" + std::string(10'000'000, '[');
  expect_error(ErrorKind::kBadInput, {"DCP_SHARDING_INFO"},
               [&] { part_offsets(bad, "set/model.safetensors"); });
}

}  // namespace
}  // namespace reshardfs::safetensors
