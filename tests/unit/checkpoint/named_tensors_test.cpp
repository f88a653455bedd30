// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/indexes/named_tensors.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs {
namespace {

using test::expect_error;
using test::MemorySource;

std::string safetensors_file(const std::string& header, std::size_t data) {
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  return length + header + std::string(data, 'd');
}

TEST(NamedTensors, AreFoundInSafetensors) {
  const std::string header = R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
                             R"("a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})";
  const MemorySource file(safetensors_file(header, 28), "f");
  const NamedTensors tensors;
  const TorchTensor& found = tensors.find(file, "b");
  EXPECT_EQ(found.dtype, DType::kFloat32);
  EXPECT_EQ(found.shape, (Shape{2, 3}));
  EXPECT_EQ(found.strides, (Shape{3, 1}));
  EXPECT_EQ(found.storage, ByteRange(8 + header.size() + 4, 24));
  EXPECT_TRUE(is_contiguous(found));
  expect_error(ErrorKind::kMissing, {"f", "not in the file"}, [&] { tensors.find(file, "c"); });
}

TEST(NamedTensors, KeepWhatIsWantedAndTellWhyOneCannotBeShown) {
  const std::string header = R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"I8","shape":[1],"data_offsets":[4,5]},)"
                             R"("odd":{"dtype":"Q4","shape":[1],"data_offsets":[5,6]}})";
  const MemorySource file(safetensors_file(header, 6), "f");
  std::vector<TensorEntry> entries(2);
  entries[0].name = "a";
  entries[1].name = "odd";
  const NamedTensors tensors(std::make_shared<const FileIndex>(std::move(entries)));
  EXPECT_EQ(tensors.find(file, "a").shape, Shape{4});
  expect_error(ErrorKind::kMissing, {"f", "not in the file"}, [&] { tensors.find(file, "b"); });
  expect_error(ErrorKind::kUnsupported, {"f", "'Q4' is not known"},
               [&] { tensors.find(file, "odd"); });
}

TEST(NamedTensors, AFailureIsNotKept) {
  const NamedTensors tensors;
  const MemorySource damaged(std::string(100, '\xff'), "f");
  expect_error(ErrorKind::kBadInput, {"f"}, [&] { tensors.find(damaged, "a"); });
  const MemorySource file(
      safetensors_file(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 4), "f");
  EXPECT_EQ(tensors.find(file, "a").shape, Shape{4});
}

}  // namespace
}  // namespace reshardfs
