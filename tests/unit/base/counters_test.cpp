// SPDX-License-Identifier: Apache-2.0
#include "base/process/counters.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/text/metrics_text.h"

namespace reshardfs {
namespace {

using namespace std::chrono_literals;

std::string text_of(const Counters& counters) {
  MetricsText text("/m");
  counters.write_metrics(text);
  return std::move(text).take();
}

/// Each sample of a text in Prometheus' format by its name with the labels beside `mount`; fails
/// the test where the format's rules are broken.
std::map<std::string, double> parse(const std::string& text) {
  static const std::regex help("# HELP ([a-z_]+) [^\\\\\n]*[a-z.]");
  static const std::regex type("# TYPE ([a-z_]+) (counter|gauge|histogram)");
  static const std::regex sample("([a-z_0-9]+)\\{mount=\"/m\",?([^}]*)\\} ([0-9]+(\\.[0-9]+)?)");
  std::map<std::string, double> samples;
  std::set<std::string> families;
  std::string family;
  std::string kind;
  std::istringstream lines(text);
  EXPECT_TRUE(text.ends_with('\n'));
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      family = match[1];
      kind.clear();
      EXPECT_TRUE(families.insert(family).second) << line;
      EXPECT_TRUE(family.starts_with("reshardfs_")) << line;
    } else if (std::regex_match(line, match, type)) {
      EXPECT_EQ(match[1], family) << "HELP and TYPE belong together";
      kind = match[2];
      EXPECT_EQ(family.ends_with("_total"), kind == "counter") << line;
    } else if (std::regex_match(line, match, sample)) {
      std::string name = match[1];
      const std::string labels = match[2];
      if (kind == "histogram") {
        name = std::regex_replace(name, std::regex("_(bucket|sum|count)$"), "");
      }
      EXPECT_EQ(name, family) << line;
      EXPECT_FALSE(kind.empty()) << line;
      const std::string key = match[1].str() + (labels.empty() ? "" : "{" + labels + "}");
      EXPECT_TRUE(samples.emplace(key, std::stod(match[3])).second) << "twice: " << line;
    } else {
      ADD_FAILURE() << "not in the format: " << line;
    }
  }
  return samples;
}

void deliver(Counters& counters, std::uint64_t bytes, std::chrono::nanoseconds took) {
  counters.read_delivers(view_of("merged"), bytes);
  counters.read_done(took);
}

TEST(Counters, BeginAtZeroWithEverySampleThere) {
  const Counters counters;
  const auto samples = parse(text_of(counters));
  EXPECT_EQ(samples.size(), 6U + 1 + 1 + 13 + 9 + 1 + 14 + 3 * (1 + 1 + 1 + 14) + 1 + 1);
  for (const auto& [name, value] : samples) EXPECT_EQ(value, 0) << name;
}

TEST(Counters, CountWhatTheyAreTold) {
  Counters counters;
  counters.request(Operation::kLookup);
  counters.request(Operation::kRead);
  counters.request(Operation::kRead);
  for (int i = 0; i < 5; ++i) counters.read_began();
  deliver(counters, 4096, 200us);
  deliver(counters, 1, 2s);
  counters.read_failed(ESTALE, 50ms);
  counters.read_failed(ENOSPC, 20s);
  counters.read_delivers(view_of("rank_17"), 10);
  counters.source_read(SourceKind::kFile, 100, 2ms);
  counters.source_read(SourceKind::kS3, 11, 1s);
  counters.source_failed(SourceKind::kS3);
  counters.request_failed();
  counters.set_oldest_wait(1500ms);
  counters.source_changed();
  counters.replica_read();

  const CounterValues values = counters.values();
  EXPECT_EQ(values.requests, (std::array<std::uint64_t, 6>{1, 0, 0, 2, 0, 0}));
  EXPECT_EQ(values.bytes_delivered(), 4107U);
  EXPECT_EQ(values.read_errors, (std::array<std::uint64_t, 9>{0, 1, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(values.reads_in_flight, 1U);
  EXPECT_EQ(values.reads.total, 22s + 50ms + 200us);
  EXPECT_EQ(values.source_reads(), 2U);
  EXPECT_EQ(values.source_bytes(), 111U);
  EXPECT_EQ(values.source_changes, 1U);

  const auto samples = parse(text_of(counters));
  EXPECT_EQ(samples.at("reshardfs_requests_total{operation=\"read\"}"), 2);
  EXPECT_EQ(samples.at("reshardfs_read_bytes_total{view=\"merged\"}"), 4097);
  EXPECT_EQ(samples.at("reshardfs_read_bytes_total{view=\"ranks\"}"), 10);
  EXPECT_EQ(samples.at("reshardfs_request_failures_total"), 1);
  EXPECT_EQ(samples.at("reshardfs_oldest_request_seconds"), 1.5);
  EXPECT_EQ(samples.at("reshardfs_read_errors_total{errno=\"ESTALE\"}"), 1);
  EXPECT_EQ(samples.at("reshardfs_read_errors_total{errno=\"other\"}"), 1);
  EXPECT_EQ(samples.at("reshardfs_reads_in_flight"), 1);
  EXPECT_EQ(samples.at("reshardfs_source_reads_total{kind=\"file\"}"), 1);
  EXPECT_EQ(samples.at("reshardfs_source_read_bytes_total{kind=\"file\"}"), 100);
  EXPECT_EQ(samples.at("reshardfs_source_read_bytes_total{kind=\"s3\"}"), 11);
  EXPECT_EQ(samples.at("reshardfs_source_errors_total{kind=\"s3\"}"), 1);
  EXPECT_EQ(samples.at("reshardfs_source_errors_total{kind=\"file\"}"), 0);
  const std::string fetches = "reshardfs_source_fetch_duration_seconds";
  EXPECT_EQ(samples.at(fetches + "_bucket{kind=\"file\",le=\"0.001\"}"), 0);
  EXPECT_EQ(samples.at(fetches + "_bucket{kind=\"file\",le=\"0.003\"}"), 1);
  EXPECT_EQ(samples.at(fetches + "_sum{kind=\"s3\"}"), 1);
  EXPECT_EQ(samples.at("reshardfs_source_changes_total"), 1);
  EXPECT_EQ(samples.at("reshardfs_replica_reads_total"), 1);
}

TEST(Counters, TheHistogramIsCumulativeAndInSeconds) {
  Counters counters;
  deliver(counters, 1, 0s);
  deliver(counters, 1, 100us);  // a bound belongs to its class
  deliver(counters, 1, 100us + 1ns);
  counters.read_failed(EIO, 2500ms);
  deliver(counters, 1, 10s + 1ns);
  const auto samples = parse(text_of(counters));
  const auto bucket = [&](const char* bound) {
    return samples.at(std::string("reshardfs_read_duration_seconds_bucket{le=\"") + bound + "\"}");
  };
  EXPECT_EQ(bucket("0.0001"), 2);
  EXPECT_EQ(bucket("0.0003"), 3);
  EXPECT_EQ(bucket("0.001"), 3);
  EXPECT_EQ(bucket("0.03"), 3);
  EXPECT_EQ(bucket("1"), 3);
  EXPECT_EQ(bucket("3"), 4);
  EXPECT_EQ(bucket("10"), 4);
  EXPECT_EQ(bucket("+Inf"), 5);
  EXPECT_EQ(samples.at("reshardfs_read_duration_seconds_count"), 5);
  EXPECT_DOUBLE_EQ(samples.at("reshardfs_read_duration_seconds_sum"), 12.500200002);
}

TEST(Counters, EveryErrorThatIsToldApartHasItsOwnClass) {
  const std::vector<int> errors = {EIO,   ESTALE, ETIMEDOUT,  ENOMEM, EACCES,
                                   EINTR, ENOENT, EOPNOTSUPP, EPERM};
  ASSERT_EQ(errors.size(), kReadErrorNames.size());
  for (std::size_t i = 0; i < errors.size(); ++i) {
    Counters counters;
    counters.read_failed(errors[i], 1us);
    EXPECT_EQ(counters.values().read_errors[i], 1U) << kReadErrorNames[i];
  }
}

TEST(Counters, NothingIsLostBetweenThreads) {
  constexpr unsigned kThreads = 24;  // more than there are shards
  constexpr std::uint64_t kEach = 20000;
  Counters counters;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&counters, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) {
        counters.request(Operation::kRead);
        counters.read_began();
        counters.source_read(SourceKind::kHttp, 3, 1us);
        if ((i + t) % 2 == 0) {
          deliver(counters, 2, 1us);
        } else {
          counters.read_failed(EIO, 1us);
        }
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(counters.values().reads_in_flight, std::uint64_t{kThreads} * kEach);
  }
  for (std::thread& thread : threads) thread.join();
  const CounterValues values = counters.values();
  EXPECT_EQ(values.requests[3], kThreads * kEach);
  EXPECT_EQ(values.bytes_delivered(), kThreads * kEach);
  EXPECT_EQ(values.read_errors[0], kThreads * kEach / 2);
  EXPECT_EQ(values.source_bytes(), 3 * kThreads * kEach);
  EXPECT_EQ(values.reads_in_flight, 0U);
  EXPECT_EQ(values.reads.counts[0], kThreads * kEach);
}

TEST(Counters, AReadMayEndOnAnotherThreadThanItBeganOn) {
  Counters counters;
  for (int i = 0; i < 3; ++i) std::thread([&] { counters.read_began(); }).join();
  EXPECT_EQ(counters.values().reads_in_flight, 3U);
  for (int i = 0; i < 3; ++i) std::thread([&] { deliver(counters, 1, 1us); }).join();
  EXPECT_EQ(counters.values().reads_in_flight, 0U);
}

TEST(Counters, PrometheusOwnParserTakesTheText) {
  if (std::system("/usr/bin/python3 -c 'import prometheus_client' 2>/dev/null") != 0) {
    GTEST_SKIP() << "python3-prometheus-client is not installed";
  }
  Counters counters;
  deliver(counters, 1, 1ms);
  std::FILE* python = ::popen(
      "/usr/bin/python3 -c 'import sys; from prometheus_client import parser; "
      "families = list(parser.text_string_to_metric_families(sys.stdin.read())); "
      "sys.exit(len(families) != 13)'",
      "w");
  ASSERT_NE(python, nullptr);
  const std::string text = text_of(counters);
  std::fwrite(text.data(), 1, text.size(), python);
  EXPECT_EQ(::pclose(python), 0);
}

TEST(Counters, TellViewsByTheDirectoryAtTheTop) {
  const auto name = [](std::string_view directory) {
    return kViewDirectories.at(view_of(directory));
  };
  EXPECT_EQ(name("rank_0"), "ranks");
  EXPECT_EQ(name("rank_1023"), "ranks");
  EXPECT_EQ(name(".reshardfs"), "control");
  for (const char* own : {"merged", "hf", "unified", "iteration", "dcp", "dcp-hf", "megatron",
                          "hyper", "vllm", "strategy"}) {
    EXPECT_EQ(name(own), own);
  }
  for (const char* other : {"", "steps", "ranks2", "merged.ckpt"}) EXPECT_EQ(name(other), "other");
  EXPECT_EQ(kViewDirectories.at(kOtherView), "other");
}

TEST(Counters, ThereIsOneSetForTheProcess) {
  const std::uint64_t before = counters().values().source_changes;
  counters().source_changed();
  EXPECT_EQ(counters().values().source_changes, before + 1);
}

}  // namespace
}  // namespace reshardfs
