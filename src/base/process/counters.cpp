// SPDX-License-Identifier: Apache-2.0
#include "base/process/counters.h"

#include <algorithm>
#include <cerrno>
#include <numeric>

#include "base/text/metrics_text.h"

namespace reshardfs {
namespace {

constexpr std::array<int, kReadErrorNames.size() - 1> kReadErrors = {
    EIO, ESTALE, ETIMEDOUT, ENOMEM, EACCES, EINTR, ENOENT, EOPNOTSUPP};

void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

std::uint64_t get(const std::atomic<std::uint64_t>& counter) noexcept {
  return counter.load(std::memory_order_relaxed);
}

template <std::size_t n>
void add_all(std::array<std::uint64_t, n>& sums,
             const std::array<std::atomic<std::uint64_t>, n>& counters) noexcept {
  for (std::size_t i = 0; i < n; ++i) sums[i] += get(counters[i]);
}

std::size_t class_of_error(int error) noexcept {
  return static_cast<std::size_t>(std::find(kReadErrors.begin(), kReadErrors.end(), error) -
                                  kReadErrors.begin());
}

std::size_t class_of_duration(std::chrono::nanoseconds took) noexcept {
  return static_cast<std::size_t>(
      std::lower_bound(kDurationBounds.begin(), kDurationBounds.end(), took) -
      kDurationBounds.begin());
}

void write_source_metrics(MetricsText& text, const CounterValues& now) {
  const auto of_each = [&](auto&& sample) {
    for (std::size_t i = 0; i < now.sources.size(); ++i)
      sample(now.sources[i], kSourceKindNames[i]);
  };
  text.family("source_reads_total", "counter",
              "System calls that have read a source file, and requests to a server.");
  of_each([&](const SourceValues& source, std::string_view kind) {
    text.sample(source.fetches.count(), {{"kind", kind}});
  });
  text.family("source_read_bytes_total", "counter", "Bytes read from sources, by their kind.");
  of_each([&](const SourceValues& source, std::string_view kind) {
    text.sample(source.bytes, {{"kind", kind}});
  });
  text.family("source_errors_total", "counter", "Reads of sources that failed, by their kind.");
  of_each([&](const SourceValues& source, std::string_view kind) {
    text.sample(source.errors, {{"kind", kind}});
  });
  text.family("source_fetch_duration_seconds", "histogram",
              "Of system calls that read a source file, and of requests to a server with waiting "
              "and repetition included.");
  of_each([&](const SourceValues& source, std::string_view kind) {
    text.histogram(kDurationBounds, source.fetches.counts, source.fetches.total, {{"kind", kind}});
  });
}

}  // namespace

ViewNumber view_of(std::string_view directory) noexcept {
  if (directory.starts_with("rank_")) return 0;
  if (directory == ".reshardfs") directory = "control";
  const auto* const found =
      std::find(kViewDirectories.begin() + 1, kViewDirectories.end(), directory);
  return found == kViewDirectories.end()
             ? kOtherView
             : static_cast<ViewNumber>(found - kViewDirectories.begin());
}

std::uint64_t DurationValues::count() const noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::uint64_t CounterValues::bytes_delivered() const noexcept {
  return std::accumulate(view_bytes.begin(), view_bytes.end(), std::uint64_t{0});
}

std::uint64_t CounterValues::source_reads() const noexcept {
  std::uint64_t sum = 0;
  for (const SourceValues& source : sources) sum += source.fetches.count();
  return sum;
}

std::uint64_t CounterValues::source_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const SourceValues& source : sources) sum += source.bytes;
  return sum;
}

Counters::Shard& Counters::own() noexcept {
  static constinit std::atomic<std::size_t> threads = 0;
  thread_local const std::size_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return shards_[number % kShards];
}

void Counters::request(Operation operation) noexcept {
  add(own().requests[static_cast<std::size_t>(operation)], 1);
}

void Counters::read_began() noexcept {
  add(own().reads_in_flight, 1);
}

void Counters::Durations::add(std::chrono::nanoseconds took) noexcept {
  reshardfs::add(counts[class_of_duration(took)], 1);
  reshardfs::add(nanoseconds, static_cast<std::uint64_t>(took.count()));
}

void Counters::Durations::add_to(DurationValues& sums) const noexcept {
  add_all(sums.counts, counts);
  sums.total += std::chrono::nanoseconds(get(nanoseconds));
}

void Counters::read_ended(Shard& shard, std::chrono::nanoseconds took) noexcept {
  shard.reads.add(took);
  shard.reads_in_flight.fetch_sub(1, std::memory_order_relaxed);
}

void Counters::read_delivers(ViewNumber view, std::uint64_t bytes) noexcept {
  add(own().view_bytes[view], bytes);
}

void Counters::read_done(std::chrono::nanoseconds took) noexcept {
  read_ended(own(), took);
}

void Counters::read_failed(int error, std::chrono::nanoseconds took) noexcept {
  Shard& shard = own();
  add(shard.read_errors[class_of_error(error)], 1);
  read_ended(shard, took);
}

void Counters::source_read(SourceKind kind, std::uint64_t bytes,
                           std::chrono::nanoseconds took) noexcept {
  Source& source = own().sources[static_cast<std::size_t>(kind)];
  source.fetches.add(took);
  add(source.bytes, bytes);
}

void Counters::source_failed(SourceKind kind) noexcept {
  add(own().sources[static_cast<std::size_t>(kind)].errors, 1);
}

void Counters::request_failed() noexcept {
  add(own().request_failures, 1);
}

void Counters::set_oldest_wait(std::chrono::milliseconds wait) noexcept {
  oldest_wait_ms_.store(wait.count(), std::memory_order_relaxed);
}

void Counters::source_changed() noexcept {
  add(own().source_changes, 1);
}

void Counters::replica_read() noexcept {
  add(own().replica_reads, 1);
}

CounterValues Counters::values() const noexcept {
  CounterValues sums;
  for (const Shard& shard : shards_) {
    add_all(sums.requests, shard.requests);
    add_all(sums.read_errors, shard.read_errors);
    add_all(sums.view_bytes, shard.view_bytes);
    shard.reads.add_to(sums.reads);
    for (std::size_t i = 0; i < sums.sources.size(); ++i) {
      shard.sources[i].fetches.add_to(sums.sources[i].fetches);
      sums.sources[i].bytes += get(shard.sources[i].bytes);
      sums.sources[i].errors += get(shard.sources[i].errors);
    }
    sums.reads_in_flight += get(shard.reads_in_flight);
    sums.request_failures += get(shard.request_failures);
    sums.source_changes += get(shard.source_changes);
    sums.replica_reads += get(shard.replica_reads);
  }
  sums.oldest_wait = std::chrono::milliseconds(oldest_wait_ms_.load(std::memory_order_relaxed));
  // A read that ended on another thread than it began on may have been seen at its end alone.
  if (sums.reads_in_flight >> 63 != 0) sums.reads_in_flight = 0;
  return sums;
}

void Counters::write_metrics(MetricsText& text) const {
  const CounterValues now = values();
  text.family("requests_total", "counter", "Requests of the kernel, by operation.");
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    text.sample(now.requests[i], {{"operation", kOperationNames[i]}});
  }
  text.family("request_failures_total", "counter",
              "Requests that failed because of a source or of reshardfs; names that do not exist "
              "do not count.");
  text.sample(now.request_failures);
  text.family("oldest_request_seconds", "gauge",
              "Age of the oldest request that waits for storage.");
  text.seconds_sample(now.oldest_wait);
  text.family("read_bytes_total", "counter",
              "Bytes given to programs that read, by the directory at the top of the mount.");
  for (std::size_t i = 0; i < kViewDirectories.size(); ++i) {
    text.sample(now.view_bytes[i], {{"view", kViewDirectories[i]}});
  }
  text.family("read_errors_total", "counter", "Reads that ended with an error, by errno.");
  for (std::size_t i = 0; i < kReadErrorNames.size(); ++i) {
    text.sample(now.read_errors[i], {{"errno", kReadErrorNames[i]}});
  }
  text.family("reads_in_flight", "gauge", "Reads in progress.");
  text.sample(now.reads_in_flight);
  text.family("read_duration_seconds", "histogram",
              "Duration of reads from arrival to end, including the wait for a turn.");
  text.histogram(kDurationBounds, now.reads.counts, now.reads.total);
  write_source_metrics(text, now);
  text.family("source_changes_total", "counter",
              "How often a source file was found to have changed while it was in use.");
  text.sample(now.source_changes);
  text.family("replica_reads_total", "counter",
              "Reads served from another rank's file because a source file had failed.");
  text.sample(now.replica_reads);
}

Counters& counters() noexcept {
  static constinit Counters of_this_process;
  return of_this_process;
}

}  // namespace reshardfs
