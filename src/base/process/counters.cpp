// SPDX-License-Identifier: Apache-2.0
#include "base/process/counters.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace reshardfs {
namespace {

constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

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

/// Nanoseconds as seconds, "1.000000005", in any locale.
std::string seconds(std::uint64_t nanoseconds) {
  const std::string digits = std::to_string(nanoseconds % kNanosecondsPerSecond);
  return std::to_string(nanoseconds / kNanosecondsPerSecond) + '.' +
         std::string(9 - digits.size(), '0') + digits;
}

/// A bound as Prometheus' own clients write it: "0.0001", "1".
std::string bound_text(std::chrono::nanoseconds bound) {
  std::string text = seconds(static_cast<std::uint64_t>(bound.count()));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

class MetricsText {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = std::string("reshardfs_") + name;
    text_ += "# HELP " + name_ + ' ' + help + "\n# TYPE " + name_ + ' ' + type + '\n';
  }
  void sample(std::uint64_t value) { line("", "", std::to_string(value)); }
  void sample(std::string_view label, std::string_view label_value, std::uint64_t value) {
    line("", braces(label, label_value), std::to_string(value));
  }
  void histogram(const CounterValues& values) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kDurationBounds.size(); ++i) {
      sum += values.read_durations[i];
      line("_bucket", braces("le", bound_text(kDurationBounds[i])), std::to_string(sum));
    }
    sum += values.read_durations.back();
    line("_bucket", braces("le", "+Inf"), std::to_string(sum));
    line("_sum", "", seconds(static_cast<std::uint64_t>(values.read_time.count())));
    line("_count", "", std::to_string(sum));
  }
  std::string take() && { return std::move(text_); }

 private:
  static std::string braces(std::string_view label, std::string_view value) {
    return '{' + std::string(label) + "=\"" + std::string(value) + "\"}";
  }
  void line(const char* suffix, const std::string& labels, const std::string& value) {
    text_ += name_ + suffix + labels + ' ' + value + '\n';
  }

  std::string name_;
  std::string text_;
};

}  // namespace

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

void Counters::read_ended(Shard& shard, std::chrono::nanoseconds took) noexcept {
  add(shard.read_durations[class_of_duration(took)], 1);
  add(shard.read_nanoseconds, static_cast<std::uint64_t>(took.count()));
  shard.reads_in_flight.fetch_sub(1, std::memory_order_relaxed);
}

void Counters::read_delivers(std::uint64_t bytes) noexcept {
  add(own().bytes_delivered, bytes);
}

void Counters::read_done(std::chrono::nanoseconds took) noexcept {
  read_ended(own(), took);
}

void Counters::read_failed(int error, std::chrono::nanoseconds took) noexcept {
  Shard& shard = own();
  add(shard.read_errors[class_of_error(error)], 1);
  read_ended(shard, took);
}

void Counters::source_read(std::uint64_t bytes) noexcept {
  Shard& shard = own();
  add(shard.source_reads, 1);
  add(shard.source_bytes, bytes);
}

void Counters::source_changed() noexcept {
  add(own().source_changes, 1);
}

void Counters::replica_read() noexcept {
  add(own().replica_reads, 1);
}

CounterValues Counters::values() const noexcept {
  CounterValues sums;
  std::uint64_t nanoseconds = 0;
  for (const Shard& shard : shards_) {
    add_all(sums.requests, shard.requests);
    add_all(sums.read_errors, shard.read_errors);
    add_all(sums.read_durations, shard.read_durations);
    sums.bytes_delivered += get(shard.bytes_delivered);
    sums.reads_in_flight += get(shard.reads_in_flight);
    nanoseconds += get(shard.read_nanoseconds);
    sums.source_reads += get(shard.source_reads);
    sums.source_bytes += get(shard.source_bytes);
    sums.source_changes += get(shard.source_changes);
    sums.replica_reads += get(shard.replica_reads);
  }
  sums.read_time = std::chrono::nanoseconds(nanoseconds);
  // A read that ended on another thread than it began on may have been seen at its end alone.
  if (sums.reads_in_flight >> 63 != 0) sums.reads_in_flight = 0;
  return sums;
}

std::string Counters::prometheus_text() const {
  const CounterValues now = values();
  MetricsText text;
  text.family("requests_total", "counter", "Requests of the kernel, by operation.");
  for (std::size_t i = 0; i < kOperationNames.size(); ++i) {
    text.sample("operation", kOperationNames[i], now.requests[i]);
  }
  text.family("read_bytes_total", "counter", "Bytes given to programs that read.");
  text.sample(now.bytes_delivered);
  text.family("read_errors_total", "counter", "Reads that ended with an error, by errno.");
  for (std::size_t i = 0; i < kReadErrorNames.size(); ++i) {
    text.sample("errno", kReadErrorNames[i], now.read_errors[i]);
  }
  text.family("reads_in_flight", "gauge", "Reads that have come and are not done.");
  text.sample(now.reads_in_flight);
  text.family("read_duration_seconds", "histogram",
              "From the arrival of a read to its end, waiting for its turn included.");
  text.histogram(now);
  text.family("source_reads_total", "counter", "System calls that have read a source file.");
  text.sample(now.source_reads);
  text.family("source_read_bytes_total", "counter", "Bytes read from source files.");
  text.sample(now.source_bytes);
  text.family("source_changes_total", "counter",
              "How often a source file was found to have changed while it was in use.");
  text.sample(now.source_changes);
  text.family("replica_reads_total", "counter",
              "Reads that another rank's file has served, as a source file had failed.");
  text.sample(now.replica_reads);
  return std::move(text).take();
}

Counters& counters() noexcept {
  static constinit Counters of_this_process;
  return of_this_process;
}

}  // namespace reshardfs
