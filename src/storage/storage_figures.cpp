// SPDX-License-Identifier: Apache-2.0
#include "storage/storage_figures.h"

#include "base/text/metrics_text.h"
#include "storage/local/kept_maps.h"
#include "storage/local/local_readers.h"
#include "storage/pool/block_pool.h"
#include "storage/remote/cached_fetcher.h"
#include "transport/http_engine.h"

namespace reshardfs {

namespace {

/// Figures of files that are read through memory maps.
std::vector<StorageFigure> map_figures() {
  const std::uint64_t mapped = KeptMaps::process().bytes();
  if (mapped == 0) return {};
  return {{"mapped_bytes", mapped, false,
           "Bytes of source files that are mapped for gathering; pages of the page cache"}};
}

std::vector<StorageFigure> far_figures() {
  const HttpCounters& http = HttpEngine::counters();
  const BlockPool::Figures pool = BlockPool::process().figures();
  return {
      {"remote_requests", http.requests, true, "Requests made to servers"},
      {"remote_retries", http.retries, true, "Requests made again after a failure"},
      {"remote_failures", http.failures, true, "Requests given up"},
      {"remote_bytes", http.bytes, true, "Bytes that servers have sent"},
      {"prefetch_bytes", pool.blocks * BlockPool::kBlockBytes, false,
       "Memory of blocks fetched from servers and slow file systems"},
      {"prefetch_hit_bytes", pool.hits, true, "Bytes read that were in memory or on their way"},
      {"prefetch_unread_bytes", pool.unread, true, "Bytes fetched and dropped without being read"},
  };
}

/// Figures of files that LocalReaders read.
std::vector<StorageFigure> reader_figures() {
  const LocalReaders::Figures slow = LocalReaders::process().figures();
  return {
      {"slow_file_reads", slow.reads, true, "Reads of files of slow file systems"},
      {"slow_file_reads_in_flight", slow.in_flight, false,
       "Reads of slow file systems that are under way"},
      {"slow_file_reads_stuck", slow.stuck, false,
       "Reads of slow file systems that take very long"},
  };
}

std::vector<StorageFigure> cache_figures() {
  const BlockCache::Stats cache = source_cache()->stats();
  return {
      {"cache_hits", cache.hits, true, "Blocks, or parts of them, read from the cache"},
      {"cache_misses", cache.misses, true, "Blocks that were not in the cache"},
      {"cache_read_bytes", cache.bytes_read, true, "Bytes read from the cache"},
      {"cache_written_bytes", cache.bytes_written, true, "Bytes kept in the cache"},
      {"cache_bad", cache.bad_records, true, "Blocks removed because a checksum did not match"},
      {"cache_evicted", cache.evicted_records, true, "Blocks removed to make room"},
      {"cache_not_kept", cache.not_kept, true, "Blocks not kept: the disk was too slow or failed"},
      {"cache_failures", cache.failures, true, "Errors of the cache's disk"},
      {"cache_held_bytes", cache.bytes_held, false, "Size of the cache, of all mounts of the user"},
      {"cache_max_bytes", cache.max_bytes, false, "Limit of the cache"},
  };
}

}  // namespace

std::vector<StorageFigure> storage_figures() {
  std::vector<StorageFigure> out = map_figures();
  const auto add = [&out](const std::vector<StorageFigure>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  if (BlockPool::is_used()) add(far_figures());
  if (LocalReaders::is_running()) add(reader_figures());
  if (BlockPool::is_used() && source_cache() != nullptr) add(cache_figures());
  return out;
}

void write_storage_metrics(MetricsText& text) {
  for (const StorageFigure& figure : storage_figures()) {
    text.family(figure.name + (figure.counts ? "_total" : ""), figure.counts ? "counter" : "gauge",
                figure.help + ".");
    text.sample(figure.value);
  }
}

}  // namespace reshardfs
