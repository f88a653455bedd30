// SPDX-License-Identifier: Apache-2.0
/// Reads of the pool, and what they wait for.
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "storage/pool/pool_blocks.h"
#include "storage/stuck_read.h"

namespace reshardfs {
namespace {

/// How often a waiting reader checks whether its fetch is stuck; most fetches end before the first
/// check.
constexpr std::chrono::milliseconds kLookInterval{40};
constexpr std::chrono::milliseconds kQuick{2};

/// @param may_go_on while the work and its sources exist.
[[noreturn]] void leave(std::function<bool()> may_go_on) {
  throw StuckRead{std::make_shared<const std::function<bool()>>(std::move(may_go_on))};
}

bool is_unknown(const RangeFetcher& fetcher) noexcept {
  return fetcher.answering() == RangeFetcher::Answering::kUnknown;
}

/// Of a source that hangs, and that somebody else tries already, nothing more is asked for.
void leave_if_tried(const RangeFetcher& fetcher) {
  using Answering = RangeFetcher::Answering;
  if (LeftReads::of_thread() == nullptr || fetcher.answering() != Answering::kTried) return;
  leave([&fetcher] { return fetcher.answering() != Answering::kTried; });
}

}  // namespace

void BlockPool::read(std::uint64_t source, const RangeFetcher& fetcher, std::uint64_t offset,
                     std::span<std::byte> out) {
  while (!out.empty()) {
    const std::uint64_t end =
        std::min(offset + out.size(), (offset / kBlockBytes + kBlocksAtOnce) * kBlockBytes);
    const auto part = out.first(static_cast<std::size_t>(end - offset));
    if (!read_some(source, fetcher, offset, part)) read_alone(fetcher, offset, part);
    out = out.subspan(part.size());
    offset = end;
  }
}

/// @return whether it has come; false if not, or if it is shared and does not come although its
///         source answers. @throws StuckRead
bool BlockPool::await(std::unique_lock<std::mutex>& lock, const RangeFetcher& fetcher,
                      const FetchPtr& fetch, Whose whose, bool may_leave) {
  const auto is_done = [this, fetch] {
    const std::scoped_lock own(mutex_);
    return fetch->done;
  };
  if (fetch->arrived.wait_for(lock, kQuick, [&] { return fetch->done; }))
    return fetch->failure == nullptr;
  do {
    const auto answering = fetcher.answering();
    const bool answers = answering <= RangeFetcher::Answering::kUnknown;
    const bool is_late = answering != RangeFetcher::Answering::kYes &&
                         Clock::now() - fetch->started >= fetcher.patience();
    if (whose == Whose::kShared && answers && is_late) return false;
    if (may_leave && (is_late || !answers)) {
      if (whose == Whose::kOwn) leave(is_done);
      leave([is_done, &fetcher] {
        return is_done() || fetcher.answering() <= RangeFetcher::Answering::kUnknown;
      });
    }
  } while (!fetch->arrived.wait_for(lock, kLookInterval, [&] { return fetch->done; }));
  return fetch->failure == nullptr;
}

/// @return false if there is no room for the blocks, or what brings them also brings others, and
///         fails or is stuck.
bool BlockPool::read_some(std::uint64_t source, const RangeFetcher& fetcher, std::uint64_t offset,
                          std::span<std::byte> out) {
  const std::uint64_t end = offset + out.size();
  LeftReads* const left = LeftReads::of_thread();
  const LeftReads::Key key{&fetcher, offset, out.size(), /*is_shared=*/true};
  // What has failed since this read was left would be asked for again and again, and what hangs
  // would keep its place in the pool.
  const auto goes_alone = [&] {
    return left != nullptr && (left->find(key) != nullptr || is_unknown(fetcher));
  };
  std::unique_lock lock(mutex_);
  Pins pins(*this, lock);
  for (std::uint64_t number = offset / kBlockBytes; number * kBlockBytes < end; ++number) {
    BlockPtr block = find({source, number});
    if (block == nullptr) {
      if (goes_alone()) return false;  // before others make room for it
      leave_if_tried(fetcher);
      block = make({source, number}, fetcher.size(), /*may_drop_unread=*/true);
    }
    if (block == nullptr) return false;
    const std::uint64_t from = std::max(offset, block->begin) - block->begin;
    const std::uint64_t to = std::min(end, block->begin + kBlockBytes) - block->begin;
    block->wanted = fetcher.by_blocks() ? mask_of(0, block->sectors())
                                        : mask_of(from / kSectorBytes, (to - 1) / kSectorBytes + 1);
    pins.add(std::move(block));
  }
  const std::vector<FetchPtr> fetches =
      fetches_of(pins.blocks(), std::max<std::uint64_t>(out.size() / kRangesAtOnce, kBlockBytes));
  std::vector<FetchPtr> awaited;
  for (const BlockPtr& block : pins.blocks()) {
    for (std::size_t sector = 0; sector < kSectors; ++sector) {
      const FetchPtr& fetch = block->pending[sector];
      const bool wanted = (block->wanted & mask_of(sector, sector + 1)) != 0;
      if (!wanted || fetch == nullptr) continue;
      if (awaited.empty() || awaited.back() != fetch) awaited.push_back(fetch);
    }
  }
  if (!fetches.empty()) {
    if (goes_alone()) return false;
    leave_if_tried(fetcher);
  }
  const std::size_t shared = awaited.size();
  awaited.insert(awaited.end(), fetches.begin(), fetches.end());
  claim(fetches);
  std::uint64_t fetched = 0;
  for (const FetchPtr& fetch : fetches) fetched += fetch->length();
  figures_.hits += out.size() - std::min<std::uint64_t>(fetched, out.size());
  if (!fetches.empty()) {
    lock.unlock();
    start(fetcher, fetches, Foresight::kNow);
    lock.lock();
  }
  for (std::size_t i = 0; i < awaited.size(); ++i) {
    const Fetch& fetch = *awaited[i];
    const bool own = i >= shared;
    try {
      if (await(lock, fetcher, awaited[i], own ? Whose::kOwn : Whose::kShared, left != nullptr)) {
        continue;
      }
    } catch (const StuckRead&) {
      if (left->find(key) == nullptr) left->keep(key, awaited[i]);
      throw;
    }
    // A server fails as a whole; a disk may have lost some sectors.
    const bool is_for_this = fetch.offset() >= offset && fetch.offset() + fetch.length() <= end;
    if (own && (is_for_this || fetcher.is_remote())) std::rethrow_exception(fetch.failure);
    return false;
  }
  for (const BlockPtr& block : pins.blocks()) touch(*block);
  lock.unlock();
  for (const BlockPtr& block : pins.blocks()) {
    const std::uint64_t from = std::max(offset, block->begin);
    const std::uint64_t to = std::min(end, block->begin + block->bytes);
    std::memcpy(out.data() + (from - offset), block->memory.get() + (from - block->begin),
                static_cast<std::size_t>(to - from));
  }
  return true;
}

void BlockPool::read_alone(const RangeFetcher& fetcher, std::uint64_t offset,
                           std::span<std::byte> out) {
  /// In memory of its own, because the reader may stop waiting.
  struct Lone : Fetch {
    Memory bytes;
  };
  LeftReads* const left = LeftReads::of_thread();
  const LeftReads::Key key{&fetcher, offset, out.size()};
  auto lone = left == nullptr ? nullptr : std::static_pointer_cast<Lone>(left->find(key));
  if (lone == nullptr) {
    leave_if_tried(fetcher);
    lone = std::make_shared<Lone>();
    if (out.size() <= kBlockBytes) {
      const std::scoped_lock lock(mutex_);
      lone->bytes = new_memory();
    } else {
      // NOLINTNEXTLINE(modernize-avoid-c-arrays)
      lone->bytes = std::make_unique_for_overwrite<std::byte[]>(out.size());
    }
    fetcher.fetch(ByteRange(offset, out.size()), {std::span(lone->bytes.get(), out.size())},
                  Foresight::kNow,
                  [this, lone](const std::exception_ptr& failure) { finished(*lone, failure); });
    const std::scoped_lock lock(mutex_);
    figures_.fetched += out.size();
    ++figures_.requests;
  }
  std::unique_lock lock(mutex_);
  try {
    if (!await(lock, fetcher, lone, Whose::kOwn, left != nullptr)) {
      std::rethrow_exception(lone->failure);
    }
  } catch (const StuckRead&) {
    if (left->find(key) == nullptr) left->keep(key, lone);
    throw;
  }
  lock.unlock();
  std::memcpy(out.data(), lone->bytes.get(), out.size());
  const bool is_kept = left != nullptr && left->find(key) != nullptr;
  if (is_kept || out.size() > kBlockBytes) return;
  lock.lock();
  keep_memory(std::move(lone->bytes));
}

void BlockPool::wait_for(const RangeFetcher& fetcher,
                         const std::function<void(RangeFetcher::Done done)>& begin) {
  const auto fetch = std::make_shared<Fetch>();
  begin([this, fetch](const std::exception_ptr& failure) { finished(*fetch, failure); });
  std::unique_lock lock(mutex_);
  LeftReads* const left = LeftReads::of_thread();
  const bool may_leave = left != nullptr && left->may_leave_again();
  if (!await(lock, fetcher, fetch, Whose::kOwn, may_leave)) std::rethrow_exception(fetch->failure);
}

}  // namespace reshardfs
