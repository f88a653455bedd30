// SPDX-License-Identifier: Apache-2.0
/// What a process has done so far: for the metrics and the status of a mount.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/engine.h"

namespace reshardfs {

class MetricsText;

enum class Operation : std::uint8_t { kLookup, kGetattr, kOpen, kRead, kReaddir, kGetxattr };
inline constexpr std::array<std::string_view, 6> kOperationNames = {
    "lookup", "getattr", "open", "read", "readdir", "getxattr"};

/// The errors of reads that are told apart; all others are "other".
inline constexpr std::array<std::string_view, 9> kReadErrorNames = {
    "EIO", "ESTALE", "ETIMEDOUT", "ENOMEM", "EACCES", "EINTR", "ENOENT", "EOPNOTSUPP", "other"};

/// By which way source files are read.
enum class SourceKind : std::uint8_t { kFile, kHttp, kS3 };
inline constexpr std::array<std::string_view, 3> kSourceKindNames = {"file", "http", "s3"};

/// The views that bytes are counted by: the directories at the top of a mount or of a step.
inline constexpr std::array<std::string_view, 13> kViewDirectories = {
    "ranks",    "merged", "hf",   "unified",  "iteration", "dcp",  "dcp-hf",
    "megatron", "hyper",  "vllm", "strategy", "control",   "other"};
/// An index of kViewDirectories.
using ViewNumber = std::uint8_t;
inline constexpr ViewNumber kOtherView = kViewDirectories.size() - 1;
/// @param directory at the top; "ranks" are rank_0 and so on, "control" is .reshardfs.
ViewNumber view_of(std::string_view directory) noexcept;

/// Upper bounds of the classes of durations; one more class has what took longer.
inline constexpr std::array<std::chrono::microseconds, 11> kDurationBounds = {
    std::chrono::microseconds(100), std::chrono::microseconds(300), std::chrono::milliseconds(1),
    std::chrono::milliseconds(3),   std::chrono::milliseconds(10),  std::chrono::milliseconds(30),
    std::chrono::milliseconds(100), std::chrono::milliseconds(300), std::chrono::seconds(1),
    std::chrono::seconds(3),        std::chrono::seconds(10)};

/// Durations by their classes.
struct DurationValues {
  std::array<std::uint64_t, kDurationBounds.size() + 1> counts{};  ///< not summed
  std::chrono::nanoseconds total{};

  std::uint64_t count() const noexcept;
};

/// What has been read of sources of one kind.
struct SourceValues {
  DurationValues fetches{};  ///< system calls that read a source, or requests to a server
  std::uint64_t bytes = 0;
  std::uint64_t errors = 0;
};

/// All counters at (nearly) one moment; each is exact once nothing is under way.
struct CounterValues {
  std::array<std::uint64_t, kOperationNames.size()> requests{};     ///< as kOperationNames
  std::array<std::uint64_t, kViewDirectories.size()> view_bytes{};  ///< delivered to programs
  std::array<std::uint64_t, kReadErrorNames.size()> read_errors{};
  /// Reads that have come and are not done, among them those that wait for their turn.
  std::uint64_t reads_in_flight = 0;
  DurationValues reads{};  ///< finished ones, failed ones too
  std::array<SourceValues, kSourceKindNames.size()> sources{};
  /// Requests of any kind that ended with an error of a source or of this program. To ask for a
  /// name that does not exist is none.
  std::uint64_t request_failures = 0;
  std::chrono::milliseconds oldest_wait{};  ///< of the requests that wait for storage
  std::uint64_t source_changes = 0;         ///< how often a source was seen to have changed
  std::uint64_t replica_reads = 0;  ///< reads that took a replica's bytes, as a source had failed

  std::uint64_t bytes_delivered() const noexcept;
  std::uint64_t source_reads() const noexcept;
  RESHARDFS_ENGINE std::uint64_t source_bytes() const noexcept;
};

/// Counts. Every member function may be called from any number of threads at once, and costs some
/// nanoseconds: threads count in different cache lines, which are added up when someone asks.
class Counters {
 public:
  constexpr Counters() = default;
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  ~Counters() = default;

  void request(Operation operation) noexcept;
  /// Each read that began ends with read_done() or read_failed().
  void read_began() noexcept;
  /// Call this before the program gets the bytes, so that it finds them counted after the read.
  void read_delivers(ViewNumber view, std::uint64_t bytes) noexcept;
  void read_done(std::chrono::nanoseconds took) noexcept;
  /// @param error an errno
  void read_failed(int error, std::chrono::nanoseconds took) noexcept;
  void source_read(SourceKind kind, std::uint64_t bytes, std::chrono::nanoseconds took) noexcept;
  void source_failed(SourceKind kind) noexcept;
  void request_failed() noexcept;
  /// Call this again whenever it has changed. Zero: no request waits.
  void set_oldest_wait(std::chrono::milliseconds wait) noexcept;
  void source_changed() noexcept;
  void replica_read() noexcept;

  RESHARDFS_ENGINE CounterValues values() const noexcept;
  void write_metrics(MetricsText& text) const;

 private:
  using Counter = std::atomic<std::uint64_t>;

  struct Durations {
    std::array<Counter, kDurationBounds.size() + 1> counts{};
    Counter nanoseconds = 0;

    void add(std::chrono::nanoseconds took) noexcept;
    void add_to(DurationValues& sums) const noexcept;
  };
  struct Source {
    Durations fetches{};
    Counter bytes = 0;
    Counter errors = 0;
  };
  struct alignas(64) Shard {
    std::array<Counter, kOperationNames.size()> requests{};
    std::array<Counter, kViewDirectories.size()> view_bytes{};
    std::array<Counter, kReadErrorNames.size()> read_errors{};
    /// Modulo 2^64: a read may end on another thread than it began on, which then is below zero.
    Counter reads_in_flight = 0;
    Durations reads{};
    std::array<Source, kSourceKindNames.size()> sources{};
    Counter request_failures = 0;
    Counter source_changes = 0;
    Counter replica_reads = 0;
  };
  static constexpr std::size_t kShards = 16;

  Shard& own() noexcept;
  void read_ended(Shard& shard, std::chrono::nanoseconds took) noexcept;

  std::array<Shard, kShards> shards_{};
  std::atomic<std::int64_t> oldest_wait_ms_ = 0;
};

/// Those of this process.
RESHARDFS_ENGINE Counters& counters() noexcept;

}  // namespace reshardfs
