// SPDX-License-Identifier: Apache-2.0
/// What a process has done so far: for the metrics and the status of a mount.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reshardfs {

enum class Operation : std::uint8_t { kLookup, kGetattr, kOpen, kRead, kReaddir, kGetxattr };
inline constexpr std::array<std::string_view, 6> kOperationNames = {
    "lookup", "getattr", "open", "read", "readdir", "getxattr"};

/// The errors of reads that are told apart; all others are "other".
inline constexpr std::array<std::string_view, 9> kReadErrorNames = {
    "EIO", "ESTALE", "ETIMEDOUT", "ENOMEM", "EACCES", "EINTR", "ENOENT", "EOPNOTSUPP", "other"};

/// Upper bounds of the classes of read durations; one more class has what took longer.
inline constexpr std::array<std::chrono::microseconds, 11> kDurationBounds = {
    std::chrono::microseconds(100), std::chrono::microseconds(300), std::chrono::milliseconds(1),
    std::chrono::milliseconds(3),   std::chrono::milliseconds(10),  std::chrono::milliseconds(30),
    std::chrono::milliseconds(100), std::chrono::milliseconds(300), std::chrono::seconds(1),
    std::chrono::seconds(3),        std::chrono::seconds(10)};

/// All counters at (nearly) one moment; each is exact once nothing is under way.
struct CounterValues {
  std::array<std::uint64_t, kOperationNames.size()> requests{};  ///< as kOperationNames
  std::uint64_t bytes_delivered = 0;                             ///< to programs
  std::array<std::uint64_t, kReadErrorNames.size()> read_errors{};
  /// Reads that have come and are not done, among them those that wait for their turn.
  std::uint64_t reads_in_flight = 0;
  /// Finished reads by how long they took, failed ones too: classes as kDurationBounds, not summed.
  std::array<std::uint64_t, kDurationBounds.size() + 1> read_durations{};
  std::chrono::nanoseconds read_time{};  ///< of all finished reads together
  std::uint64_t source_reads = 0;        ///< system calls that read a source
  std::uint64_t source_bytes = 0;
  std::uint64_t source_changes = 0;  ///< how often a source was seen to have changed
  std::uint64_t replica_reads = 0;   ///< reads that took a replica's bytes, as a source had failed
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
  void read_delivers(std::uint64_t bytes) noexcept;
  void read_done(std::chrono::nanoseconds took) noexcept;
  /// @param error an errno
  void read_failed(int error, std::chrono::nanoseconds took) noexcept;
  void source_read(std::uint64_t bytes) noexcept;
  void source_changed() noexcept;
  void replica_read() noexcept;

  CounterValues values() const noexcept;
  /// All of them in Prometheus' text format.
  std::string prometheus_text() const;

 private:
  using Counter = std::atomic<std::uint64_t>;

  struct alignas(64) Shard {
    std::array<Counter, kOperationNames.size()> requests{};
    Counter bytes_delivered = 0;
    std::array<Counter, kReadErrorNames.size()> read_errors{};
    /// Modulo 2^64: a read may end on another thread than it began on, which then is below zero.
    Counter reads_in_flight = 0;
    std::array<Counter, kDurationBounds.size() + 1> read_durations{};
    Counter read_nanoseconds = 0;
    Counter source_reads = 0;
    Counter source_bytes = 0;
    Counter source_changes = 0;
    Counter replica_reads = 0;
  };
  static constexpr std::size_t kShards = 16;

  Shard& own() noexcept;
  void read_ended(Shard& shard, std::chrono::nanoseconds took) noexcept;

  std::array<Shard, kShards> shards_{};
};

/// Those of this process.
Counters& counters() noexcept;

}  // namespace reshardfs
