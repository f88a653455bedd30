// SPDX-License-Identifier: Apache-2.0
#include "cache/record_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/posix/file_lock.h"
#include "base/posix/read_write.h"
#include "base/process/fault_report.h"
#include "cache/sweep.h"

namespace reshardfs {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// For locks, and for the sweep of another process.
constexpr FileLock::Patience kWritePatience = seconds(2);
constexpr seconds kPause{10};
/// For one record.
constexpr int kSweeps = 3;
/// A sweep makes room for more than one record, as it costs as much for one as for many.
constexpr std::uint64_t kSweptPart = 16;

}  // namespace

RecordWriter::RecordWriter(std::shared_ptr<CurrentDirectory> current, std::uint64_t max_bytes,
                           std::shared_ptr<CacheCounters> counters) noexcept
    : current_(std::move(current)), max_bytes_(max_bytes), counters_(std::move(counters)) {}

bool RecordWriter::is_ready() const noexcept {
  const Clock::time_point at = ready_at_;
  return at == Clock::time_point{} || Clock::now() >= at;
}

void RecordWriter::tidy(const std::stop_token& stop) noexcept {
  const auto directory = current_->get();
  const auto lock = FileLock::take(directory->sweep_file(), milliseconds(0), stop);
  if (!lock) return;  // somebody is just doing it
  const Balance balance = directory->ledger().read();
  if (balance.known && balance.held <= max_bytes_) return remove_abandoned(*directory, stop);
  counters_->evicted_records += sweep(*directory, max_bytes_, stop).evicted_records;
}

void RecordWriter::keep(const RecordId& id, std::span<std::byte> record,
                        const std::stop_token& stop) noexcept {
  const RecordPath path = record_path(id);
  RecordHeader::write(id, record.subspan(kHeaderBytes), record.first<kHeaderBytes>());
  for (bool again = false;; again = true) {
    const auto directory = current_->get();
    if (directory->has_record(path)) return;
    const int failed = try_keep(*directory, path, record, stop);
    if (failed == 0) {
      counters_->bytes_written += record.size() - kHeaderBytes;
      return;
    }
    if (failed == EEXIST) return;
    if (!again && get_around(failed, stop)) continue;
    ++counters_->not_kept;
    // Somebody else is busy, or this process ends: nothing is wrong.
    if (failed != EAGAIN) fail(failed);
    return;
  }
}

int RecordWriter::try_keep(CacheDirectory& directory, const RecordPath& path,
                           std::span<const std::byte> record,
                           const std::stop_token& stop) noexcept {
  if (directory.ledger().is_removed()) return ENOENT;
  const Place place = wait_for_place(directory, record.size(), stop);
  if (!place.filling.file) return place.error;
  int failed = write_fully(place.filling.file.get(), 0, record);
  if (failed == 0) failed = directory.give_name(place.filling, path);
  if (failed != 0) give_up_place(directory, place, record.size(), stop);
  return failed;
}

/// Counting a record and making its file are one step under the lock, so neither exists alone.
RecordWriter::Place RecordWriter::take_place(CacheDirectory& directory, std::uint64_t size,
                                             const std::stop_token& stop) const noexcept {
  Place place;
  Ledger& ledger = directory.ledger();
  const auto lock = FileLock::take(ledger.descriptor(), kWritePatience, stop);
  place.error = EAGAIN;
  if (!lock) return place;
  Balance balance = ledger.read();
  if (!balance.known || balance.held + occupied(size) > max_bytes_) return place;
  place.recount = balance.recount;
  place.filling = directory.make_filling(size);
  place.error = place.filling.file ? 0 : errno;
  if (place.error != 0) return place;
  balance.held += occupied(size);
  balance.added += occupied(size);
  place.error = ledger.write(balance);
  if (place.error != 0) {
    directory.remove_filling(place.filling);
    place.filling.file = Descriptor();
  }
  return place;
}

RecordWriter::Place RecordWriter::wait_for_place(CacheDirectory& directory, std::uint64_t size,
                                                 const std::stop_token& stop) noexcept {
  const Clock::time_point end = Clock::now() + kWritePatience;
  const std::uint64_t room = std::max(max_bytes_ / kSweptPart, occupied(size));
  int sweeps = 0;
  while (true) {
    Place place = take_place(directory, size, stop);
    if (place.error != EAGAIN) return place;
    // Others may take what a sweep has freed, but hardly again and again.
    if (stop.stop_requested() || Clock::now() >= end || sweeps == kSweeps) return place;
    const auto lock = FileLock::take(directory.sweep_file(), milliseconds(0), stop);
    if (!lock) {
      std::this_thread::sleep_for(milliseconds(1));
      continue;
    }
    // Another process, which had the lock before, may have made room.
    const Balance balance = directory.ledger().read();
    if (balance.known && balance.held + occupied(size) <= max_bytes_) continue;
    ++sweeps;
    place.error = make_room(directory, max_bytes_ - room, stop);
    if (place.error != 0) return place;
  }
}

/// With the lock of the sweep file.
int RecordWriter::make_room(CacheDirectory& directory, std::uint64_t target,
                            const std::stop_token& stop) noexcept {
  const SweepResult result = sweep(directory, target, stop);
  counters_->evicted_records += result.evicted_records;
  // The lock was not to be had in time, or there is no time left.
  return result.error == ETIMEDOUT || result.error == EINTR ? EAGAIN : result.error;
}

void RecordWriter::give_up_place(CacheDirectory& directory, const Place& place, std::uint64_t size,
                                 const std::stop_token& stop) noexcept {
  directory.remove_filling(place.filling);
  Ledger& ledger = directory.ledger();
  const auto lock = FileLock::take(ledger.descriptor(), kWritePatience, stop);
  if (!lock) return;
  Balance balance = ledger.read();
  // A recount since then may not have seen the file, so that its bytes are not in the number.
  if (!balance.known || balance.recount != place.recount) return;
  balance.held -= std::min(balance.held, occupied(size));
  ledger.write(balance);
}

/// @return whether to try again.
bool RecordWriter::get_around(int error, const std::stop_token& stop) noexcept {
  if (error == ENOENT || error == ESTALE) return current_->make_again();
  if (error != ENOSPC && error != EDQUOT) return false;
  // The disk is full before the cache is: others need it more.
  const auto directory = current_->get();
  const auto lock = FileLock::take(directory->sweep_file(), kWritePatience, stop);
  if (!lock) return false;
  const Balance balance = directory->ledger().read();
  const std::uint64_t held = balance.known ? balance.held : max_bytes_;
  constexpr std::uint64_t kLeast = 8 << 20;
  const std::uint64_t room = std::max(held / kSweptPart, kLeast);
  return make_room(*directory, held - std::min(held, room), stop) == 0;
}

void RecordWriter::fail(int error) noexcept {
  ++counters_->failures;
  ready_at_ = Clock::now() + kPause;
  try {
    report_fault(
        LogEvent::kCacheFailed, "the cache cannot be written",
        fmt::format("{}: cannot keep what was read, so it will be read again: {}",
                    current_->get()->path().string(), std::generic_category().message(error)));
  } catch (const std::exception&) {
    // There is no memory to say so.
  }
}

}  // namespace reshardfs
