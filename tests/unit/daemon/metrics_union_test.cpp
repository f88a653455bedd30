// SPDX-License-Identifier: Apache-2.0
#include "daemon/status/metrics_union.h"

#include <chrono>
#include <random>

#include <gtest/gtest.h>

#include "base/process/counters.h"
#include "base/text/metrics_text.h"

namespace reshardfs {
namespace {

const std::string kOne =
    "# HELP reshardfs_a_total A.\n# TYPE reshardfs_a_total counter\n"
    "reshardfs_a_total{mount=\"/x\"} 1\n"
    "# HELP reshardfs_d D.\n# TYPE reshardfs_d histogram\n"
    "reshardfs_d_bucket{mount=\"/x\",le=\"+Inf\"} 2\n"
    "reshardfs_d_sum{mount=\"/x\"} 0.5\nreshardfs_d_count{mount=\"/x\"} 2\n";

TEST(MetricsUnion, HasEachFamilyOnceWithTheSamplesOfAllMounts) {
  MetricsUnion all;
  all.begin("up", "Up.");
  all.own_sample("/p", "", true);
  all.own_sample("/q\n", ",state=\"dead\"", false);
  EXPECT_TRUE(all.add("/p", kOne));
  EXPECT_TRUE(all.add("/q\n",
                      "# HELP reshardfs_b B.\n# TYPE reshardfs_b gauge\n"
                      "reshardfs_b 7\n"
                      "# HELP reshardfs_a_total Other words.\n"
                      "# TYPE reshardfs_a_total counter\n"
                      "reshardfs_a_total{k=\"a,b}\\\"\\\\\",mount=\"/y\"} 3\n"));
  EXPECT_EQ(all.text(),
            "# HELP reshardfs_up Up.\n# TYPE reshardfs_up gauge\n"
            "reshardfs_up{mount=\"/p\"} 1\n"
            "reshardfs_up{mount=\"/q\\n\",state=\"dead\"} 0\n"
            "# HELP reshardfs_a_total A.\n# TYPE reshardfs_a_total counter\n"
            "reshardfs_a_total{mount=\"/p\"} 1\n"
            "reshardfs_a_total{mount=\"/q\\n\",k=\"a,b}\\\"\\\\\"} 3\n"
            "# HELP reshardfs_d D.\n# TYPE reshardfs_d histogram\n"
            "reshardfs_d_bucket{mount=\"/p\",le=\"+Inf\"} 2\n"
            "reshardfs_d_sum{mount=\"/p\"} 0.5\nreshardfs_d_count{mount=\"/p\"} 2\n"
            "# HELP reshardfs_b B.\n# TYPE reshardfs_b gauge\n"
            "reshardfs_b{mount=\"/q\\n\"} 7\n");
}

TEST(MetricsUnion, TakesNothingThatATerminalWouldObey) {
  for (const std::string evil : {"\x1b[2J", "\r", "\x07", "\x7f", "\u009b", "\u202e", "\u2028"}) {
    MetricsUnion all;
    EXPECT_FALSE(all.add(
        "/p", "# HELP reshardfs_b B" + evil + ".\n# TYPE reshardfs_b gauge\nreshardfs_b 7\n"));
    EXPECT_FALSE(all.add("/p", "# HELP reshardfs_b B.\n# TYPE reshardfs_b gauge\nreshardfs_b{a=\"" +
                                   evil + "\"} 7\n"));
    EXPECT_EQ(all.text(), "");
    all.begin("up", "Up.");
    all.own_sample("/p" + evil, "", true);
    EXPECT_EQ(all.text().find(evil), std::string::npos) << all.text();
  }
}

TEST(MetricsUnion, TakesWhatAMountWrites) {
  MetricsText text("\xff\"\\\n");
  counters().write_metrics(text);
  const std::string written = std::move(text).take();
  MetricsUnion all;
  EXPECT_TRUE(all.add("\xff\"\\\n", written));
  EXPECT_EQ(all.text(), written);
}

TEST(MetricsUnion, LeavesOutAFamilyOfAnotherType) {
  MetricsUnion all;
  EXPECT_TRUE(all.add("/p", kOne));
  EXPECT_TRUE(all.add("/q",
                      "# HELP reshardfs_d D.\n# TYPE reshardfs_d gauge\nreshardfs_d 9\n"
                      "# HELP reshardfs_e E.\n# TYPE reshardfs_e gauge\nreshardfs_e 9\n"));
  EXPECT_EQ(all.text().find("reshardfs_d{"), std::string::npos);
  EXPECT_NE(all.text().find("reshardfs_e{mount=\"/q\"} 9\n"), std::string::npos);
}

class BadMetrics : public testing::TestWithParam<const char*> {};

TEST_P(BadMetrics, AreRefusedAsAWhole) {
  const std::string head = "# HELP reshardfs_a A.\n# TYPE reshardfs_a gauge\n";
  MetricsUnion all;
  EXPECT_FALSE(all.add("/p", GetParam() + std::string()));
  EXPECT_FALSE(all.add("/p", head + "reshardfs_a 1\n" + GetParam()));
  EXPECT_EQ(all.text(), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, BadMetrics,
    testing::Values("words", "words\n", "reshardfs_b 1\n", "reshardfs_a{mount=\"/x\"} 1",
                    "reshardfs_a 1\n", "reshardfs_a{mount=\"/x\"} 1\n", "reshardfs_a{k=\"v\"} -1\n",
                    "reshardfs_a{k=\"v\"} 1e5\n", "reshardfs_a{k=\"v\"} 1.\n",
                    "reshardfs_a{k=\"v\"} .5\n", "reshardfs_a{k=\"v\"} 1 2\n",
                    "reshardfs_a{k=\"v\"}1\n", "reshardfs_a{k=\"v} 1\n", "reshardfs_a{k=v} 1\n",
                    "reshardfs_a{} 1\n", "reshardfs_a{k=\"v\",} 1\n",
                    "reshardfs_a{k=\"v\",k=\"w\"} 1\n", "reshardfs_a{k=\"\\t\"} 1\n",
                    "reshardfs_a{k=\"\xff\"} 1\n", "reshardfs_a{k=\"v\\\"} 1\n",
                    "reshardfs_a_sum{k=\"v\"} 1\n", "# HELP reshardfs_a A.\n", "# HELP node_x X.\n",
                    "# HELP reshardfs_b B.\n", "# TYPE reshardfs_b gauge\n",
                    "# HELP reshardfs_b B.\n# TYPE reshardfs_b summary\n",
                    "# HELP reshardfs_b B.\n# TYPE reshardfs_b gauge\n"
                    "# TYPE reshardfs_b gauge\n",
                    "# HELP reshardfs_b B.\nreshardfs_b 1\n",
                    "# HELP reshardfs_b\n# TYPE "
                    "reshardfs_b gauge\n",
                    "# HELP reshardfs_b \\q\n# TYPE reshardfs_b gauge\n",
                    "# HELP reshardfs_b B.\n# TYPE reshardfs_b histogram\nreshardfs_b 1\n",
                    "# HELP reshardfs_b B.\n# TYPE reshardfs_b histogram\n"
                    "reshardfs_b_bucket 1\n",
                    "# a comment\n", "\n"));

TEST(MetricsUnion, RefusesOrTakesDamagedTextsAndKeepsTheFormat) {
  std::mt19937 random(1);
  unsigned taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = kOne;
    text[random() % text.size()] = static_cast<char>(random());
    MetricsUnion all;
    if (!all.add("/p", text)) continue;
    ++taken;
    // What it gives it also takes.
    MetricsUnion again;
    EXPECT_TRUE(again.add("/p", all.text())) << text;
    EXPECT_EQ(again.text(), all.text());
  }
  EXPECT_GT(taken, 100U);
}

TEST(MetricsUnion, OfNothingIsNothing) {
  EXPECT_FALSE(MetricsUnion().add("/p", ""));
  EXPECT_EQ(MetricsUnion().text(), "");
}

}  // namespace
}  // namespace reshardfs
