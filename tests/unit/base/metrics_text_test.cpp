// SPDX-License-Identifier: Apache-2.0
#include "base/text/metrics_text.h"

#include <array>

#include <gtest/gtest.h>

namespace reshardfs {
namespace {

using namespace std::chrono_literals;

TEST(MetricsText, EverySampleHasTheMountFirst) {
  MetricsText text("/mnt/a");
  text.family("reads_total", "counter", "Reads.");
  text.sample(3);
  text.sample(4, {{"kind", "file"}, {"view", "hf"}});
  text.family("age_seconds", "gauge", "Age.");
  text.seconds_sample(1500ms);
  EXPECT_EQ(std::move(text).take(),
            "# HELP reshardfs_reads_total Reads.\n"
            "# TYPE reshardfs_reads_total counter\n"
            "reshardfs_reads_total{mount=\"/mnt/a\"} 3\n"
            "reshardfs_reads_total{mount=\"/mnt/a\",kind=\"file\",view=\"hf\"} 4\n"
            "# HELP reshardfs_age_seconds Age.\n"
            "# TYPE reshardfs_age_seconds gauge\n"
            "reshardfs_age_seconds{mount=\"/mnt/a\"} 1.500000000\n");
}

TEST(MetricsText, HistogramsAreSummed) {
  constexpr std::array kBounds{std::chrono::microseconds(100),
                               std::chrono::microseconds(2'000'000)};
  constexpr std::array<std::uint64_t, 3> kCounts{1, 0, 2};
  MetricsText text("/m");
  text.family("d", "histogram", "D.");
  text.histogram(kBounds, kCounts, 7s + 5ns, {{"kind", "s3"}});
  EXPECT_EQ(std::move(text).take(),
            "# HELP reshardfs_d D.\n# TYPE reshardfs_d histogram\n"
            "reshardfs_d_bucket{mount=\"/m\",kind=\"s3\",le=\"0.0001\"} 1\n"
            "reshardfs_d_bucket{mount=\"/m\",kind=\"s3\",le=\"2\"} 1\n"
            "reshardfs_d_bucket{mount=\"/m\",kind=\"s3\",le=\"+Inf\"} 3\n"
            "reshardfs_d_sum{mount=\"/m\",kind=\"s3\"} 7.000000005\n"
            "reshardfs_d_count{mount=\"/m\",kind=\"s3\"} 3\n");
}

TEST(MetricLabelValue, EscapesWhatWouldEndItAndWhatIsNoUtf8) {
  EXPECT_EQ(metric_label_value("/mnt/a b"), "/mnt/a b");
  EXPECT_EQ(metric_label_value("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
  EXPECT_EQ(metric_label_value("\xe4\xb8\xad\t"), "\xe4\xb8\xad\\\\x09");
  EXPECT_EQ(metric_label_value("a\xff\xe4\xb8"), "a\\\\xff\\\\xe4\\\\xb8");
}

}  // namespace
}  // namespace reshardfs
