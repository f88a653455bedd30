// SPDX-License-Identifier: Apache-2.0
#include "report/report_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/shell_text.h"
#include "support/ranks.h"

namespace reshardfs {
namespace {

using ::testing::ElementsAre;

TEST(ReportCommand, HasTheOptionsThatDifferFromTheirDefaults) {
  EXPECT_THAT(report_command({.source = {.path = "/ckpt"}}, ""),
              ElementsAre("reshardfs", "report", "/ckpt", "-O", "report.html"));
  EXPECT_EQ(shell_line(report_command(
                {.source = {.path = "/a b/ckpt", .strategy = "/s.ckpt", .replicas = Replicas::kOwn},
                 .dst_sizes = parse_derivation("tp=8,dp=2"),
                 .unmatched = Unmatched::kReplicate,
                 .ranks = test::ranks({0, 1, 2}),
                 .exclude = {"adam_*", "moments.*"},
                 .formats = {OutputFormat::kCkpt, OutputFormat::kSafetensors},
                 .trainer = {.step = 7},
                 .casts = {"fp32->bf16"},
                 .append_crc = true},
                "9_50")),
            "reshardfs report '/a b/ckpt' --src-strategy /s.ckpt --step 9_50 --replicas own "
            "--dst-strategy tp=8,dp=2 --unmatched replicate --ranks 0-2 --exclude 'adam_*' "
            "--exclude 'moments.*' "
            "--format ckpt,safetensors --map-var trainer_step=7 --cast 'fp32->bf16' --crc "
            "-O report.html");
}

TEST(ReportCommand, NamesTheKeysFileNotTheKey) {
  EXPECT_THAT(
      report_command(
          {.source = {.path = "/c", .dec_key_file = "/secret/key", .dec_mode = "SM4-CBC"}}, ""),
      ElementsAre("reshardfs", "report", "/c", "--dec-key-file", "/secret/key", "--dec-mode",
                  "SM4-CBC", "-O", "report.html"));
}

TEST(ReportCommand, KeepsAValueThatLooksLikeAnOption) {
  EXPECT_THAT(report_command({.source = {.path = "/c"}, .include = {"-x*"}}, ""),
              ElementsAre("reshardfs", "report", "/c", "--include=-x*", "-O", "report.html"));
}

}  // namespace
}  // namespace reshardfs
