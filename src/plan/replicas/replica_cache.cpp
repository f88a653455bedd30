// SPDX-License-Identifier: Apache-2.0
#include "plan/replicas/replica_cache.h"

#include <new>
#include <string>
#include <string_view>

#include "storage/remote/cached_fetcher.h"

namespace reshardfs {
namespace {

constexpr std::string_view kName = "replicas 1";
constexpr std::string_view kEqualWord = "equal";
/// An offset that no sample has.
constexpr std::uint64_t kWhole = ~std::uint64_t{0};

ObjectKey key_of(const ObjectKey& set, const ComparisonList& list) {
  const XXH128_hash_t sum = list.sum();
  return ObjectKey(std::string(set.digits().data(), set.digits().size()) + " " +
                   std::to_string(sum.high64) + " " + std::to_string(sum.low64));
}

}  // namespace

ComparisonList::ComparisonList(const CheckpointSet& set) : set_(set), state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void ComparisonList::add(std::uint64_t number) {
  XXH3_128bits_update(state_.get(), &number, sizeof number);
}

void ComparisonList::add(const Holding& holding) {
  add(static_cast<std::uint64_t>(holding.file - set_.files().data()));
  add(static_cast<std::uint64_t>(holding.entry - holding.file->index->entries().data()));
}

void ComparisonList::add_sample(const Holding& one, const Holding& other, std::uint64_t offset) {
  add(one);
  add(other);
  add(offset);
}

void ComparisonList::add_whole(const Holding& one, const Holding& other) {
  add_sample(one, other, kWhole);
}

XXH128_hash_t ComparisonList::sum() const {
  return XXH3_128bits_digest(state_.get());
}

ReplicaCache::ReplicaCache(const ObjectKey& set, const ComparisonList& list)
    : cache_(source_cache()), key_(key_of(set, list)) {}

bool ReplicaCache::has() const {
  return cache_ && cache_->load(kName, key_) == kEqualWord;
}

void ReplicaCache::keep() const {
  if (cache_) cache_->store(kName, key_, kEqualWord);
}

}  // namespace reshardfs
