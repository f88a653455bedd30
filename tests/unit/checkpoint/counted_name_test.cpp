// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/whole/counted_name.h"

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

TEST(CountedName, CountsTheFilesOfAWhole) {
  const auto name = parse_counted_name("model-00001-of-00002.safetensors");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->index, 1);
  EXPECT_EQ(name->count, 2);
  EXPECT_EQ(name->with_index(2), "model-00002-of-00002.safetensors");
  EXPECT_EQ(name->with_index(123456), "model-123456-of-00002.safetensors");
}

TEST(CountedName, TakesAnyNameAndExtension) {
  for (const char* text : {"a.b-1-of-9.npz", "00000-of-00002", "w_3_of_4.ckpt",
                           "model.fp16-00001-of-00002.safetensors", "x-1-of-2.tar.gz"}) {
    EXPECT_TRUE(parse_counted_name(text)) << text;
  }
}

TEST(CountedName, IsNothingElse) {
  for (const char* text :
       {"", "-of-", "model-of-2.ckpt", "model-1-of-.ckpt", "model-1-of-2x.ckpt", "one-of-two.ckpt",
        "model-3-of-2.ckpt", "model-0-of-0.ckpt", "model.safetensors", "model-1of-2.ckpt",
        "model-1-of-99999999999999999999.ckpt"}) {
    EXPECT_FALSE(parse_counted_name(text)) << text;
  }
}

}  // namespace
}  // namespace reshardfs
