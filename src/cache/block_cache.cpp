// SPDX-License-Identifier: Apache-2.0
#include "cache/block_cache.h"

#include <new>
#include <utility>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "cache/cache_directory.h"
#include "cache/fill_queue.h"
#include "cache/kept_records.h"
#include "cache/record.h"
#include "cache/record_reader.h"
#include "cache/record_writer.h"

namespace reshardfs {
namespace {

/// A value may take up to one part in this many of the cache.
constexpr std::uint64_t kValuePart = 4;

/// @throws std::bad_alloc
RecordId value_id(std::string_view name, const ObjectKey& object) {
  // The digits are always as many, so that no two pairs make the same text.
  const auto& digits = object.digits();
  return {ObjectKey(std::string(digits.data(), digits.size()).append(name)), RecordKind::kValue, 0};
}

}  // namespace

struct BlockCache::Parts {
  explicit Parts(const Options& options)
      : opened_with(options),
        max_bytes(options.max_bytes),
        counters(std::make_shared<CacheCounters>()),
        current(std::make_shared<CurrentDirectory>(options.directory)),
        queue(std::make_unique<RecordWriter>(current, options.max_bytes, counters), counters) {}

  /// @return whether it was there.
  bool count(Found found, std::size_t bytes) const noexcept {
    if (found == Found::kThere) counters->bytes_read += bytes;
    if (found == Found::kBad) ++counters->bad_records;
    if (found == Found::kFailed) ++counters->failures;
    return found == Found::kThere;
  }

  const Options opened_with;
  const std::uint64_t max_bytes;
  const std::shared_ptr<CacheCounters> counters;
  const std::shared_ptr<CurrentDirectory> current;
  KeptRecords kept;
  FillQueue queue;
};

BlockCache::BlockCache(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}

BlockCache::~BlockCache() = default;

std::shared_ptr<BlockCache> BlockCache::open(const Options& options) {
  if (options.max_bytes < kMinBytes) {
    throw Error(ErrorKind::kUsage,
                fmt::format("a cache of {} bytes is too small to be of use", options.max_bytes))
        .in_file(options.directory)
        .hint(fmt::format("give it at least {} MiB", kMinBytes >> 20U));
  }
  auto parts = std::make_unique<Parts>(options);
  return std::shared_ptr<BlockCache>(new BlockCache(std::move(parts)));
}

bool BlockCache::read(const ObjectKey& object, std::uint64_t block,
                      std::span<std::byte> out) noexcept {
  return read_part(object, block, out.size(), 0, out);
}

bool BlockCache::read_part(const ObjectKey& object, std::uint64_t block, std::uint64_t block_length,
                           std::uint64_t offset, std::span<std::byte> out) noexcept {
  parts_->queue.start();
  const auto directory = parts_->current->get();
  const bool there =
      parts_->count(read_record(*directory, parts_->kept, {object, RecordKind::kBlock, block},
                                block_length, offset, out),
                    out.size());
  ++(there ? parts_->counters->hits : parts_->counters->misses);
  return there;
}

bool BlockCache::has(const ObjectKey& object, std::uint64_t block) noexcept {
  const RecordId id{object, RecordKind::kBlock, block};
  return parts_->current->get()->has_record(record_path(id));
}

void BlockCache::write(const ObjectKey& object, std::uint64_t block,
                       std::span<const std::byte> bytes) noexcept {
  parts_->queue.start();
  parts_->queue.put({object, RecordKind::kBlock, block}, bytes);
}

std::optional<std::string> BlockCache::load(std::string_view name,
                                            const ObjectKey& object) noexcept {
  parts_->queue.start();
  std::optional<std::string> value(std::in_place);
  Found found = Found::kFailed;
  try {
    const auto directory = parts_->current->get();
    found = read_record(*directory, value_id(name, object), parts_->max_bytes, *value);
  } catch (const std::exception&) {
    // There is no memory for it.
  }
  const bool there = parts_->count(found, value->size());
  ++(there ? parts_->counters->value_hits : parts_->counters->value_misses);
  if (!there) value.reset();
  return value;
}

void BlockCache::store(std::string_view name, const ObjectKey& object,
                       std::string_view bytes) noexcept {
  if (bytes.size() > parts_->max_bytes / kValuePart) {
    ++parts_->counters->not_kept;
    return;
  }
  parts_->queue.start();
  try {
    parts_->queue.put(value_id(name, object), std::as_bytes(std::span(bytes)));
  } catch (const std::exception&) {
    ++parts_->counters->not_kept;
  }
}

void BlockCache::flush(std::chrono::seconds patience) noexcept {
  parts_->queue.flush(std::chrono::steady_clock::now() + patience);
}

BlockCache::Stats BlockCache::stats() const noexcept {
  const CacheCounters& counters = *parts_->counters;
  Stats stats;
  stats.hits = counters.hits;
  stats.misses = counters.misses;
  stats.value_hits = counters.value_hits;
  stats.value_misses = counters.value_misses;
  stats.bytes_read = counters.bytes_read;
  stats.bytes_written = counters.bytes_written;
  stats.bad_records = counters.bad_records;
  stats.evicted_records = counters.evicted_records;
  stats.not_kept = counters.not_kept;
  stats.failures = counters.failures;
  const Balance balance = parts_->current->get()->ledger().read();
  stats.bytes_held = balance.known ? balance.held : 0;
  stats.max_bytes = parts_->max_bytes;
  return stats;
}

void BlockCache::leave() noexcept {
  parts_->current->leave();
}

const BlockCache::Options& BlockCache::options() const noexcept {
  return parts_->opened_with;
}

std::filesystem::path BlockCache::directory() const {
  return parts_->current->get()->path();
}

}  // namespace reshardfs
