// SPDX-License-Identifier: Apache-2.0
#include "report/option_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/ranks.h"

namespace reshardfs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OptionTexts, AreThoseThatDifferFromTheirDefaults) {
  EXPECT_THAT(option_texts({}), IsEmpty());
  EXPECT_THAT(
      option_texts({.source = "ckpt",
                    .step = "9_50",
                    .unmatched = Unmatched::kReplicate,
                    .replicas = Replicas::kOwn,
                    .ranks = test::ranks({0, 1, 2}),
                    .exclude = {"adam_*", "moments.*"},
                    .formats = {OutputFormat::kCkpt, OutputFormat::kSafetensors},
                    .append_crc = true}),
      ElementsAre("--step 9_50", "--unmatched replicate", "--replicas own", "--ranks 0-2",
                  "--exclude adam_*", "--exclude moments.*", "--format ckpt,safetensors", "--crc"));
}

TEST(OptionTexts, DoNotNameTheKey) {
  EXPECT_THAT(option_texts({.dec_key_file = "/secret/key"}), ElementsAre("--dec-mode AES-GCM"));
}

}  // namespace
}  // namespace reshardfs
