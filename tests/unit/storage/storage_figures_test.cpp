// SPDX-License-Identifier: Apache-2.0
#include "storage/storage_figures.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text/metrics_text.h"
#include "cache/block_cache.h"
#include "storage/byte_source.h"
#include "storage/local/kept_maps.h"
#include "storage/local/local_readers.h"
#include "storage/pool/block_pool.h"
#include "storage/remote/cached_fetcher.h"
#include "storage/remote/remote_object.h"
#include "support/temp_dir.h"
#include "support/web_stand_in.h"

namespace reshardfs {
namespace {

/// The figure of a name, if it is among them.
std::optional<StorageFigure> figure(const std::string& name) {
  const std::vector<StorageFigure> all = storage_figures();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
  return found == all.end() ? std::nullopt : std::optional(*found);
}

/// With an object of a server that has been read through the process's pool.
class StorageFigures : public testing::Test {
 protected:
  void read_object() {
    source_ = open_web_source("the object", server_.origin() + "/f");
    std::byte first{};
    source_->read_at(0, {&first, 1});
    EXPECT_EQ(first, std::byte{'c'});
  }

 private:
  test::WebStandIn server_{
      [](const auto& request) { return test::part_of("content", request, {"ETag: \"v1\""}); }};
  ByteSourcePtr source_;
};

TEST_F(StorageFigures, AreOfWhatTheProcessUses) {
  EXPECT_EQ(figure("remote_requests").has_value(), BlockPool::is_used());
  EXPECT_EQ(figure("slow_file_reads").has_value(), LocalReaders::is_running());
  EXPECT_FALSE(figure("cache_hits"));
  read_object();
  EXPECT_TRUE(figure("remote_requests"));
  EXPECT_TRUE(figure("prefetch_unread_bytes"));
  LocalReaders::process();
  EXPECT_TRUE(figure("slow_file_reads"));
  EXPECT_TRUE(figure("slow_file_reads_stuck"));
  EXPECT_FALSE(figure("cache_hits"));
  const test::TempDir dir;
  source_cache() = BlockCache::open({.directory = dir.path() / "cache", .max_bytes = 1U << 30U});
  EXPECT_TRUE(figure("cache_hits"));
  EXPECT_EQ(figure("cache_max_bytes")->value, 1U << 30U);
  source_cache() = nullptr;
  EXPECT_FALSE(figure("cache_hits"));
}

TEST_F(StorageFigures, TellTheMemoryOfBlocks) {
  read_object();
  const auto blocks = BlockPool::process().figures().blocks;
  EXPECT_GT(blocks, 0U);
  EXPECT_EQ(figure("prefetch_bytes")->value, blocks * BlockPool::kBlockBytes);
}

TEST_F(StorageFigures, TellTheMapsOfFiles) {
  if (!KeptMaps::process().keeps()) GTEST_SKIP() << "the address space is limited";
  EXPECT_FALSE(figure("mapped_bytes"));
  const test::TempDir dir;
  const ByteSourcePtr source = open_local_file(dir.write("a", "0123456789"));
  std::byte out[2];
  ASSERT_TRUE(source->gather({ByteRange(0, 1), 2, {.source = 5, .memory = 1}}, out));
  ASSERT_TRUE(figure("mapped_bytes"));
  EXPECT_EQ(figure("mapped_bytes")->value, 10U);
}

TEST_F(StorageFigures, AreMetricsWithTheirKinds) {
  read_object();
  MetricsText text("/mount");
  write_storage_metrics(text);
  const std::string metrics = std::move(text).take();
  for (const char* line : {"# HELP reshardfs_remote_requests_total Requests made to servers.\n",
                           "# TYPE reshardfs_remote_requests_total counter\n",
                           "# TYPE reshardfs_prefetch_bytes gauge\n",
                           "\nreshardfs_remote_requests_total{mount=\"/mount\"} "}) {
    EXPECT_NE(metrics.find(line), std::string::npos) << line << metrics;
  }
}

}  // namespace
}  // namespace reshardfs
