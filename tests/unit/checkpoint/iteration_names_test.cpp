// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/iteration/iteration_names.h"

#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/ranks.h"

namespace reshardfs {
namespace {

using testing::Optional;
using testing::StrEq;

void expect_no_directory(const std::string& name) {
  EXPECT_EQ(parse_iteration_directory(name), std::nullopt) << name.substr(0, 100);
}

void expect_no_file(const std::string& name) {
  EXPECT_FALSE(parse_iteration_file(name)) << name.substr(0, 100);
}

/// "model 3 of 8".
std::string words(const std::string& name) {
  const auto file = parse_iteration_file(name);
  if (!file) return "none";
  return (file->of_optimizer ? "opt " : "model ") + to_string(file->rank) + " of " +
         std::to_string(file->count);
}

TEST(IterationDirectory, HasAStepOfAtLeastEightDigits) {
  EXPECT_THAT(parse_iteration_directory("iteration_00000120"), Optional(StrEq("120")));
  EXPECT_THAT(parse_iteration_directory("iteration_00000000"), Optional(StrEq("0")));
  EXPECT_THAT(parse_iteration_directory("iteration_12345678"), Optional(StrEq("12345678")));
  EXPECT_THAT(parse_iteration_directory("iteration_123456789"), Optional(StrEq("123456789")));
  EXPECT_THAT(parse_iteration_directory("iteration_999999999999999999"),
              Optional(StrEq("999999999999999999")));
}

TEST(IterationDirectory, IsNoneWhereTheStepIsNotPaddedSo) {
  expect_no_directory("iteration_0000120");
  expect_no_directory("iteration_120");
  expect_no_directory("iteration_");
  expect_no_directory("iteration_000000120");
  expect_no_directory("iteration_0123456789");
}

TEST(IterationDirectory, IsNoneWithAnotherName) {
  for (const char* const name :
       {"", "00000120", "iteration00000120", "Iteration_00000120", "my_iteration_00000120",
        "iteration_-0000120", "iteration_+0000120", "iteration_ 0000120", "iteration_0000012a",
        "iteration_00000120 ", "iteration_00000120.tmp", "iteration_0x000120",
        "iteration_00000120_1", "iteration_\xd9\xa1\xd9\xa1\xd9\xa1\xd9\xa1"}) {
    expect_no_directory(name);
  }
  expect_no_directory(std::string("iteration_0000012\0", 18));
  expect_no_directory("iteration_1000000000000000000");
  expect_no_directory("iteration_18446744073709551616");
  expect_no_directory("iteration_" + std::string(10'000, '9'));
  expect_no_directory("iteration_" + std::string(10'000, '0'));
}

TEST(IterationFile, IsOfTheModelOrTheOptimizer) {
  EXPECT_EQ(words("model-0000003-0000008.safetensors"), "model 3 of 8");
  EXPECT_EQ(words("opt-0000000-0000001.safetensors"), "opt 0 of 1");
  EXPECT_EQ(words("model-9999999-10000000.safetensors"), "model 9999999 of 10000000");
  EXPECT_EQ(words("model-12345678-123456789.safetensors"), "model 12345678 of 123456789");
}

TEST(IterationFile, MayHaveAPrefix) {
  EXPECT_EQ(words("qwen3-model-0000003-0000008.safetensors"), "model 3 of 8");
  EXPECT_EQ(words("qwen3-8b-opt-0000003-0000008.safetensors"), "opt 3 of 8");
  EXPECT_EQ(words("my model-opt-0000003-0000008.safetensors"), "opt 3 of 8");
  EXPECT_EQ(words("opt-model-0000003-0000008.safetensors"), "model 3 of 8");
  EXPECT_EQ(words("-model-0000003-0000008.safetensors"), "model 3 of 8") << "an empty one";
  EXPECT_EQ(words("-opt-0000003-0000008.safetensors"), "opt 3 of 8") << "an empty one";
  EXPECT_EQ(words("a-0000001-0000002-model-0000003-0000008.safetensors"), "model 3 of 8");
}

TEST(IterationFile, IsNoneWhereItsNumbersAreNotPaddedSo) {
  expect_no_file("model-000003-0000008.safetensors");
  expect_no_file("model-0000003-000008.safetensors");
  expect_no_file("model-00000003-0000008.safetensors");
  expect_no_file("model-0000003-00000008.safetensors");
  expect_no_file("model-000000a-0000008.safetensors");
  expect_no_file("model--000003-0000008.safetensors");
  expect_no_file("model-0000003-+000008.safetensors");
  expect_no_file("model-0000003-0000008 .safetensors");
  expect_no_file("model-1000000000000000000-0000008.safetensors");
  expect_no_file("model-0000003-18446744073709551624.safetensors");
  expect_no_file("model-" + std::string(10'000, '1') + "-0000008.safetensors");
  expect_no_file("model-0000003-" + std::string(10'000, '1') + ".safetensors");
}

TEST(IterationFile, IsNoneWithAnotherName) {
  for (const char* const name : {"",
                                 ".safetensors",
                                 "-.safetensors",
                                 "--.safetensors",
                                 "model.safetensors",
                                 "model-0000003.safetensors",
                                 "0000003-0000008.safetensors",
                                 "-0000003-0000008.safetensors",
                                 "xmodel-0000003-0000008.safetensors",
                                 "x_opt-0000003-0000008.safetensors",
                                 "models-0000003-0000008.safetensors",
                                 "Model-0000003-0000008.safetensors",
                                 "qwen3-0000003-0000008.safetensors",
                                 "model-00003-of-00008.safetensors",
                                 "model-0000003-0000008",
                                 "model-0000003-0000008.ckpt",
                                 "model-0000003-0000008.tmp",
                                 "model-0000003-0000008.safetensors.tmp",
                                 "model-0000003-0000008.Safetensors",
                                 "model-0000003-0000008-.safetensors",
                                 "model-0000003-0000008-0000001.safetensors"}) {
    expect_no_file(name);
  }
}

}  // namespace
}  // namespace reshardfs
