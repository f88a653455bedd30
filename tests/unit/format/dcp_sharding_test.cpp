// SPDX-License-Identifier: Apache-2.0
#include "format/dcp_sharding.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace reshardfs::safetensors {
namespace {

using test::expect_error;

ParsedHeader header(const std::string& info) {
  ParsedHeader out;
  out.tensors.push_back({"w", DType::kFloat32, {4, 8}, 0, 128});
  out.tensors.push_back({"scalar", DType::kFloat32, {}, 128, 132});
  if (!info.empty()) out.metadata["DCP_SHARDING_INFO"] = info;
  return out;
}

TEST(DcpSharding, TensorsFromTheirBeginningAreWhole) {
  require_whole_tensors(header(""), "set/shard-1.safetensors");
  require_whole_tensors(
      header(R"({"w": {"saved_offsets": [0, 0]}, "scalar": {"saved_offsets": []}})"),
      "set/model-00001-of-00002.safetensors");
}

TEST(DcpSharding, PartsAreRefused) {
  const std::string whole = R"({"w": {"saved_offsets": [0, 0]}, "scalar": {"saved_offsets": []}})";
  expect_error(ErrorKind::kUnsupported, {"parts of tensors", "consolidate"}, [&] {
    require_whole_tensors(header(whole), "set/shard-00001-model-00001-of-00001.safetensors");
  });
  expect_error(ErrorKind::kUnsupported, {"w", "parts of tensors"}, [&] {
    require_whole_tensors(
        header(R"({"w": {"saved_offsets": [0, 8]}, "scalar": {"saved_offsets": []}})"),
        "set/model.safetensors");
  });
}

TEST(DcpSharding, WhatTheWriterDoesNotSayIsRefused) {
  for (const char* info : {"[]", "{", "{}", R"({"w": 3, "scalar": {"saved_offsets": []}})",
                           R"({"w": {"saved_offsets": [0]}, "scalar": {"saved_offsets": []}})",
                           R"({"w": {"saved_offsets": [0, -4]}, "scalar": {"saved_offsets": []}})",
                           R"({"w": {"saved_offsets": [0, 0.5]}, "scalar": {"saved_offsets": []}})",
                           R"({"w": {"saved_offsets": [0, 0]}})"}) {
    expect_error(ErrorKind::kBadInput, {"DCP_SHARDING_INFO"},
                 [&] { require_whole_tensors(header(info), "set/model.safetensors"); });
  }
}

}  // namespace
}  // namespace reshardfs::safetensors
